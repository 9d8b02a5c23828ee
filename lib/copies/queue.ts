import { CsiError } from "../core/errors.ts";
import type { CopySettings } from "../core/proxy.ts";

interface Waiting {
  readonly machines: readonly string[];
  readonly begin: () => void;
  /** Gets the number of copies before it whenever that changes. */
  readonly told: (before: number) => void;
  before: number | undefined;
}

/** The time in which a copy runs: until it ends, or has run so long that another one that waits takes its place. */
export interface Turn {
  /** Aborts when the copy must wait for its next turn. */
  readonly signal: AbortSignal;
  /** Data has arrived: a turn without any is not ended, because its copy would never come further. */
  moved(): void;
  end(): void;
}

/** Limits how many copies run at once (`atOnce`), and how many with the same machine as source or target (`perMachine`). Others wait in a queue. */
export class CopyQueue {
  readonly #settings: () => Pick<CopySettings, "atOnce" | "perMachine">;
  readonly #running = new Set<readonly string[]>();
  #waiting: Waiting[] = [];

  constructor(settings: () => Pick<CopySettings, "atOnce" | "perMachine">) {
    this.#settings = settings;
  }

  /**
   * Resolves when a copy between these machines may run, for at least `ms` milliseconds. While it must wait, `told` gets the number of
   * copies before it. Rejects with the signal's reason.
   */
  take(machines: readonly string[], ms: number, signal: AbortSignal, told: (before: number) => void): Promise<Turn> {
    const own = [...new Set(machines)];
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const leave = (): void => {
        this.#waiting = this.#waiting.filter(each => each !== entry);
        this.#tell();
        reject(signal.reason);
      };
      const begin = (): void => {
        signal.removeEventListener("abort", leave);
        resolve(this.#turn(own, ms));
      };
      const entry: Waiting = { machines: own, begin, told, before: undefined };
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting.push(entry);
      this.#next();
    });
  }

  #turn(own: readonly string[], ms: number): Turn {
    const over = new AbortController();
    let [isLong, hasMoved] = [false, false];
    const judge = (): void => {
      if (isLong && hasMoved && this.#isWanted(own))
        over.abort(new CsiError("aborted", "other copies have their turn"));
    };
    const began = setTimeout(() => {
      isLong = true;
      judge();
    }, ms);
    const later = setInterval(judge, ms / 10);
    for (const timer of [began, later]) timer.unref();
    return {
      signal: over.signal,
      moved() {
        hasMoved = true;
      },
      end: () => {
        clearTimeout(began);
        clearInterval(later);
        if (this.#running.delete(own)) this.#next();
      },
    };
  }

  /** Whether a copy that waits could run in the place of this one. */
  #isWanted(own: readonly string[]): boolean {
    const others = [...this.#running].filter(each => each !== own);
    return this.#waiting.some(({ machines }) => this.#hasRoom(machines, others));
  }

  #hasRoom(machines: readonly string[], running: readonly (readonly string[])[]): boolean {
    const { atOnce, perMachine } = this.#settings();
    if (running.length >= atOnce) return false;
    return machines.every(machine => running.filter(each => each.includes(machine)).length < perMachine);
  }

  /** Starts each waiting copy whose machines have room, in the order of the queue. */
  #next(): void {
    for (const entry of [...this.#waiting]) {
      if (!this.#hasRoom(entry.machines, [...this.#running])) continue;
      this.#waiting = this.#waiting.filter(each => each !== entry);
      this.#running.add(entry.machines);
      entry.begin();
    }
    this.#tell();
  }

  /** Tells each waiting copy how many are before it: those of its machines; all, if no more may run at once. */
  #tell(): void {
    const before: (readonly string[])[] = [...this.#running];
    const isFull = before.length >= this.#settings().atOnce;
    for (const entry of this.#waiting) {
      const shares = before.filter(each => each.some(machine => entry.machines.includes(machine)));
      const count = isFull ? before.length : shares.length;
      if (count !== entry.before) entry.told(count);
      entry.before = count;
      before.push(entry.machines);
    }
  }
}
