import { HttpError } from "./dial.ts";

interface Waiting {
  readonly start: () => void;
}

/**
 * A semaphore with fair queuing: waiting work is taken from each owner in turn, so that a burst of one connection does
 * not delay the others.
 */
export class FairSemaphore {
  #free: number;
  readonly #mostBeside: number;
  #beside = 0;
  readonly #queues = new Map<string, Waiting[]>();

  /** `mostBeside`: how many pieces of work may release their slots before they end; none if absent. */
  constructor(atOnce: number, mostBeside = 0) {
    this.#free = atOnce;
    this.#mostBeside = mostBeside;
  }

  /**
   * Work that takes too long calls `leave` to release its slot early; false: too many have done so, and it keeps its
   * slot. Throws HttpError "cancelled" when the signal ends the wait.
   */
  async run<T>(owner: string, signal: AbortSignal, work: (leave: () => boolean) => Promise<T>): Promise<T> {
    await this.#turn(owner, signal);
    let left = false;
    const leave = (): boolean => {
      if (left || this.#beside >= this.#mostBeside) return left;
      left = true;
      this.#beside++;
      this.#next();
      return true;
    };
    try {
      return await work(leave);
    } finally {
      if (left) this.#beside--;
      else this.#next();
    }
  }

  #turn(owner: string, signal: AbortSignal): Promise<void> {
    const ended = () => new HttpError(owner, "cancelled", "the call ended while it waited for its turn");
    if (signal.aborted) return Promise.reject(ended());
    if (this.#free > 0) {
      this.#free--;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const queue = this.#queues.get(owner) ?? [];
      this.#queues.set(owner, queue);
      const leave = () => {
        const index = queue.indexOf(waiting);
        if (index >= 0) queue.splice(index, 1);
        if (queue.length === 0 && this.#queues.get(owner) === queue) this.#queues.delete(owner);
        reject(ended());
      };
      const waiting: Waiting = {
        start: () => {
          signal.removeEventListener("abort", leave);
          resolve();
        },
      };
      queue.push(waiting);
      signal.addEventListener("abort", leave, { once: true });
    });
  }

  /** A slot passes directly to the next waiter and is freed only if there is none. */
  #next(): void {
    const [owner, queue] = this.#queues.entries().next().value ?? [];
    const waiting = queue?.shift();
    if (owner === undefined || !queue || !waiting) {
      this.#free++;
      return;
    }
    // To the end of the round.
    this.#queues.delete(owner);
    if (queue.length > 0) this.#queues.set(owner, queue);
    waiting.start();
  }
}
