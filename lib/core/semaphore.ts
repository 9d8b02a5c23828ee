import { CsiError } from "./errors.ts";

/**
 * The number of concurrent calls to the file systems of one server or device. A call to one that does not answer holds
 * its thread; without this limit, such a server could block all threads (64, see UV_THREADPOOL_SIZE) and with them
 * every other call.
 */
export const callsAtOnce = 4;

/** A queue in which owners take turns, however many items each of them has. */
export class FairQueue<T> {
  readonly #waiting = new Map<unknown, T[]>();

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  add(owner: unknown, item: T): void {
    const items = this.#waiting.get(owner);
    if (items) items.push(item);
    else this.#waiting.set(owner, [item]);
  }

  /** Takes the first item of the next owner. */
  take(): T | undefined {
    if (this.isEmpty) return undefined;
    const [owner, items] = this.#waiting.entries().next().value ?? [];
    const item = items?.shift();
    this.#waiting.delete(owner);
    if (items?.length) this.#waiting.set(owner, items);
    return item;
  }

  /** Removes an item that no longer waits. */
  remove(owner: unknown, item: T): void {
    const rest = (this.#waiting.get(owner) ?? []).filter(each => each !== item);
    if (rest.length > 0) this.#waiting.set(owner, rest);
    else this.#waiting.delete(owner);
  }

  /** Takes all items. */
  drain(): readonly T[] {
    const all = [...this.#waiting.values()].flat();
    this.#waiting.clear();
    return all;
  }
}

/** Runs at most `count` pieces of work at once. The others wait; their owners take turns. */
export class Semaphore {
  readonly #count: number;
  #free: number;
  /** How many more pieces of work may release their slots before they end. */
  #early: number;
  readonly #waiting = new FairQueue<() => void>();

  /** `mostEarly`: how many pieces of work may run after they have released their slots. */
  constructor(count: number, mostEarly = 0) {
    this.#count = count;
    this.#free = count;
    this.#early = mostEarly;
  }

  /** Whether no slot is taken; then nothing waits either. */
  get idle(): boolean {
    return this.#free === this.#count;
  }

  /**
   * Work that takes too long calls `leave` to release its slot early; false: too many have done so, and it keeps its
   * slot. If the signal ends the wait, throws its reason, or "deadline-exceeded" if that is not a CsiError; work that
   * has started is not interrupted.
   */
  async run<T>(work: (leave: () => boolean) => Promise<T>, signal?: AbortSignal, owner?: unknown): Promise<T> {
    if (signal?.aborted) throw ended(signal);
    if (this.#free > 0) this.#free--;
    else await this.#turn(owner, signal);
    let left = false;
    const leave = (): boolean => {
      if (left || this.#early === 0) return left;
      left = true;
      this.#early--;
      this.#release();
      return true;
    };
    try {
      return await work(leave);
    } finally {
      if (left) this.#early++;
      else this.#release();
    }
  }

  #turn(owner: unknown, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const begin = (): void => {
        signal?.removeEventListener("abort", cancel);
        resolve();
      };
      const cancel = (): void => {
        this.#waiting.remove(owner, begin);
        reject(signal && ended(signal));
      };
      signal?.addEventListener("abort", cancel, { once: true });
      this.#waiting.add(owner, begin);
    });
  }

  /** A slot passes directly to the next waiter and is freed only if there is none. */
  #release(): void {
    const next = this.#waiting.take();
    if (next) next();
    else this.#free++;
  }
}

const ended = ({ reason }: AbortSignal): CsiError =>
  reason instanceof CsiError
    ? reason
    : new CsiError("deadline-exceeded", "the call ended while it waited for other calls to the same system");

/** The number of names beyond which idle ones are forgotten: devices, servers and volumes come and go. */
const manyNames = 256;

/** A semaphore per name, for example per device of a machine; with one slot each, a mutex per name. */
export type Semaphores = (name: string) => Semaphore;

/** Semaphores with `count` slots each, created on first use. */
export function semaphores(count: number): Semaphores {
  const known = new Map<string, Semaphore>();
  return name => {
    const present = known.get(name);
    if (present) return present;
    const slots = new Semaphore(count);
    if (known.size >= manyNames) for (const [other, { idle }] of known) if (idle) known.delete(other);
    known.set(name, slots);
    return slots;
  };
}

/**
 * The results of `work` for all items, in their order. At most `limit` run at once, and the next starts when any of
 * them ends. After the first failure, which it throws, nothing more starts; running work continues in the background.
 */
export async function mapLimit<T, R>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<R>,
): Promise<readonly R[]> {
  const results = new Array<R>(items.length);
  const left = items.entries();
  let failed = false;
  const worker = async (): Promise<void> => {
    // All workers share one iterator.
    for (const [index, item] of left) {
      if (failed) return;
      try {
        results[index] = await work(item);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  return results;
}

/**
 * Waits until all have ended, also after a failure: nothing may run on when the caller releases its lock. Throws the first failure of the
 * list.
 */
export async function allEnded(work: readonly Promise<unknown>[]): Promise<void> {
  const failed = (await Promise.allSettled(work)).find(each => each.status === "rejected");
  if (failed) throw failed.reason;
}
