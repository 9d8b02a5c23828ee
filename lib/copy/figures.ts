import type { CopyProgress } from "./progress.ts";

/** The two connections of a copy, and its way. */
export interface CopyRoute extends Pick<CopyProgress, "from" | "way"> {
  /** The connection of its target. */
  readonly to: string;
}

/** Bytes that have arrived by a route since the process started. */
export interface CopiedSum extends CopyRoute {
  readonly bytes: bigint;
}

/** A copy that runs or waits in this process. Sizes are bytes. */
export interface CopyView extends CopyRoute, Pick<CopyProgress, "done" | "total" | "rate" | "fault" | "waits"> {
  /** The CSI id of the new volume. */
  readonly target: string;
  /** Whether it has received no data for ten minutes while it did not wait for its turn. Undefined: its way ("fill") reports no progress. */
  readonly isStalled: boolean | undefined;
}

/** The copies of a process. */
export interface CopiesView {
  readonly running: readonly CopyView[];
  readonly copied: readonly CopiedSum[];
}

/** The bytes that the copies of this process have received, including copies that have ended. */
export class CopiedBytes {
  readonly #sums = new Map<string, CopiedSum>();

  add({ from, to, way }: CopyRoute, bytes: bigint): void {
    const key = JSON.stringify([from, to, way]);
    this.#sums.set(key, { from, to, way, bytes: bytes + (this.#sums.get(key)?.bytes ?? 0n) });
  }

  all(): readonly CopiedSum[] {
    return [...this.#sums.values()];
  }
}

/** When bytes of a copy last arrived, and how many are new. */
export class Arrivals {
  readonly #stalledMs: number;
  readonly #now: () => number;
  #done: bigint;
  #at: number;

  /** `done`: bytes that arrived earlier; `now` returns monotonic milliseconds. */
  constructor(done: bigint, stalledMs: number, now: () => number = () => performance.now()) {
    this.#done = done;
    this.#stalledMs = stalledMs;
    this.#now = now;
    this.#at = now();
  }

  /** Starts the measurement: the copy no longer waits for its turn. */
  begin(): void {
    this.#at = this.#now();
  }

  /** `done`: all bytes that have arrived. Returns how many are new; a smaller number than before means that the transfer started again. */
  add(done: bigint): bigint {
    const fresh = done < this.#done ? done : done - this.#done;
    this.#done = done;
    if (fresh > 0n) this.#at = this.#now();
    return fresh;
  }

  get isStalled(): boolean {
    return this.#now() - this.#at >= this.#stalledMs;
  }
}
