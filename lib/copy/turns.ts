import type { CopySettings } from "../core/proxy.ts";

interface Waiting {
  readonly machines: readonly string[];
  readonly begin: () => void;
}

/** Limits how many copies run at once (`atOnce`), and how many with the same machine as source or target (`perMachine`). Others wait in a queue. */
export class Turns {
  readonly #settings: () => Pick<CopySettings, "atOnce" | "perMachine">;
  readonly #running = new Set<readonly string[]>();
  #waiting: Waiting[] = [];

  constructor(settings: () => Pick<CopySettings, "atOnce" | "perMachine">) {
    this.#settings = settings;
  }

  /**
   * Resolves when a copy between these machines may run, with the function that ends its turn. If it must wait, `told` first gets the number
   * of copies before it. Rejects with the signal's reason.
   */
  take(machines: readonly string[], signal: AbortSignal, told: (before: number) => void): Promise<() => void> {
    const own = [...new Set(machines)];
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const leave = (): void => {
        this.#waiting = this.#waiting.filter(each => each !== entry);
        reject(signal.reason);
      };
      const begin = (): void => {
        signal.removeEventListener("abort", leave);
        let ended = false;
        resolve(() => {
          if (ended) return;
          ended = true;
          this.#running.delete(own);
          this.#next();
        });
      };
      const entry: Waiting = { machines: own, begin };
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting.push(entry);
      this.#next();
      const at = this.#waiting.indexOf(entry);
      if (at >= 0) told(this.#running.size + at);
    });
  }

  /** Starts each waiting copy whose machines have room, in the order of the queue. */
  #next(): void {
    const { atOnce, perMachine } = this.#settings();
    for (const entry of [...this.#waiting]) {
      if (this.#running.size >= atOnce) return;
      const busy = entry.machines.some(
        machine => [...this.#running].filter(machines => machines.includes(machine)).length >= perMachine,
      );
      if (busy) continue;
      this.#waiting = this.#waiting.filter(each => each !== entry);
      this.#running.add(entry.machines);
      entry.begin();
    }
  }
}
