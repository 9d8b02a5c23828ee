import { CsiError } from "./errors.ts";

/**
 * How many calls to the file systems of one server or device run at once. A call to one that does not answer holds its thread until
 * it does; without a bound the first such one would hold all of them (12, see UV_THREADPOOL_SIZE), and nothing else could be served.
 */
export const callsAtOnce = 4;

/** Runs at most so many pieces of work at once; the others wait in the order in which they came. */
export class Slots {
  readonly #count: number;
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#count = count;
    this.#free = count;
  }

  /** Nothing runs, so nothing waits either. */
  get idle(): boolean {
    return this.#free === this.#count;
  }

  /** Throws the signal's reason, or "deadline-exceeded", when that ends the wait; work that has begun ends by itself. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#free > 0 && !signal?.aborted) this.#free--;
    else await this.#turn(signal);
    try {
      return await work();
    } finally {
      // A slot is handed on, never put back while somebody waits for it.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    }
  }

  #turn(signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) return Promise.reject(ended(signal));
    return new Promise((resolve, reject) => {
      const begin = (): void => {
        signal?.removeEventListener("abort", leave);
        resolve();
      };
      const leave = (): void => {
        const at = this.#waiting.indexOf(begin);
        if (at < 0) return;
        this.#waiting.splice(at, 1);
        reject(signal && ended(signal));
      };
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiting.push(begin);
    });
  }
}

const ended = ({ reason }: AbortSignal): CsiError =>
  reason instanceof CsiError
    ? reason
    : new CsiError("deadline-exceeded", "the call ended while it waited for others of its storage; repeat it");

/** How many names are known before those that nobody uses are forgotten: devices and servers come and go. */
const manyNames = 256;

/** Slots for each of many, such as the devices of a machine, as a function of its name. */
export function slotsByName(count: number): (name: string) => Slots {
  const known = new Map<string, Slots>();
  return name => {
    const slots = known.get(name) ?? new Slots(count);
    if (known.size >= manyNames) for (const [other, { idle }] of known) if (idle) known.delete(other);
    known.set(name, slots);
    return slots;
  };
}
