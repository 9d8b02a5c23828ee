import { CsiError } from "./errors.ts";

/**
 * The number of concurrent calls to the file systems of one server or device. A call to one that does not answer holds
 * its thread; without this limit, such a server could block all threads (12, see UV_THREADPOOL_SIZE) and with them
 * every other call.
 */
export const callsAtOnce = 4;

/** A semaphore: runs at most `count` pieces of work at once; the others wait in the order of their arrival. */
export class Semaphore {
  readonly #count: number;
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(count: number) {
    this.#count = count;
    this.#free = count;
  }

  /** Whether nothing runs; then nothing waits either. */
  get idle(): boolean {
    return this.#free === this.#count;
  }

  /**
   * Throws the signal's reason, or "deadline-exceeded", if the signal ends the wait; work that has started is not
   * interrupted.
   */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    if (this.#free > 0 && !signal?.aborted) this.#free--;
    else await this.#turn(signal);
    try {
      return await work();
    } finally {
      // A slot passes directly to the next waiter and is freed only if there is none.
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
    : new CsiError("deadline-exceeded", "the call ended while it waited for other calls to the same storage system");

/** The number of names beyond which idle ones are forgotten: devices and servers come and go. */
const manyNames = 256;

/** A semaphore per name, for example per device of a machine. */
export function slotsByName(count: number): (name: string) => Semaphore {
  const known = new Map<string, Semaphore>();
  return name => {
    const slots = known.get(name) ?? new Semaphore(count);
    if (known.size >= manyNames) for (const [other, { idle }] of known) if (idle) known.delete(other);
    known.set(name, slots);
    return slots;
  };
}
