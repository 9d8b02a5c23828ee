import { copied, size, timeLeft } from "../core/amounts.ts";
import { CsiError } from "../core/errors.ts";
import { encodeHandle, type Handle } from "../core/handle.ts";
import type { StoredCopy } from "../drivers/copying.ts";
import type { CopyState } from "./protocol.ts";
import { type CopyRecord, recordOf } from "./record.ts";

/** The two connections of a copy, and its method. */
export interface CopyRoute extends Pick<CopyRecord, "method"> {
  readonly from: string;
  readonly to: string;
}

/** A copy that runs or waits in this process. Sizes are bytes; 0: unknown. */
export interface CopyStatus extends CopyRoute {
  /** The CSI id of the new volume. */
  readonly target: string;
  /** "failing": the last attempt failed, and is repeated. */
  readonly state: "waiting" | "copying" | "failing";
  readonly done: number;
  readonly total: number;
  readonly perSecond: number;
  /** While it waits for its turn: the number of copies before it. */
  readonly ahead?: number | undefined;
  /** Whether it has received no data for ten minutes while it did not wait; absent if its method ("restore") reports no progress. */
  readonly stalled?: boolean | undefined;
  readonly fault?: string | undefined;
}

/** How long the rate is averaged, in milliseconds. */
const window = 30_000;

/** The shortest time between two samples of the rate, in milliseconds. */
const minSampleMs = 250;

/** The rate of a copy from its progress. */
export class Rate {
  readonly #now: () => number;
  #samples: { readonly at: number; readonly bytes: bigint }[] = [];

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** `done`: all bytes that have arrived. */
  add(bytes: bigint): void {
    const at = this.#now();
    const [first] = this.#samples;
    // A stream that begins again counts from zero.
    if (first && bytes < first.bytes) this.#samples = [];
    // Progress may be reported much more often than it is read.
    const before = this.#samples.at(-2);
    if (before && at - before.at < minSampleMs) this.#samples.pop();
    this.#samples.push({ at, bytes });
    while ((this.#samples[0]?.at ?? at) < at - window) this.#samples.shift();
  }

  /** Bytes per second; 0 if unknown. */
  get perSecond(): number {
    const [first] = this.#samples;
    const last = this.#samples.at(-1);
    if (!first || !last || last.at - first.at < 1_000) return 0;
    return Math.floor((Number(last.bytes - first.bytes) * 1_000) / Math.max(1, this.#now() - first.at));
  }
}

/** The text about a copy for the event of its claim. */
export function progressText(name: string, copy: Omit<CopyStatus, "target" | "to" | "state">): string {
  const { from, method, done, total, perSecond, ahead, fault } = copy;
  const what = `volume "${name}" is being copied from connection "${from}" (${method})`;
  const failed = fault === undefined ? "" : `; last attempt failed, retrying: ${fault}`;
  const front = ahead === 1 ? "1 copy" : `${ahead} copies`;
  if (ahead !== undefined) return `${what}: queued, ${front} ahead${failed}`;
  const left = timeLeft(done, total, perSecond);
  const parts = [
    ...(done > 0 ? [copied(done, total)] : []),
    ...(perSecond > 0 ? [`${size(perSecond)}/s`] : []),
    ...(left === undefined ? [] : [`about ${left} left`]),
  ];
  return `${what}${parts.length > 0 ? `: ${parts.join(", ")}` : ""}${failed}`;
}

/** When progress is logged: at each tenth, and at least once in `everyMs` milliseconds. */
export class ProgressDue {
  readonly #everyMs: number;
  #tenth = 0;
  #told = performance.now();

  constructor(everyMs: number) {
    this.#everyMs = everyMs;
  }

  /** Whether to log now. `total`: 0 if unknown. */
  isDue(bytes: bigint, total: bigint): boolean {
    const tenth = total > 0n ? Number((bytes * 10n) / total) : 0;
    const now = performance.now();
    if (tenth <= this.#tenth && now - this.#told < this.#everyMs) return false;
    this.#tenth = tenth;
    this.#told = now;
    return true;
  }
}

/** The copies of a process, and the bytes that have arrived by each route since it started. */
export interface CopiesView {
  readonly running: readonly CopyStatus[];
  readonly copied: readonly CopiedSum[];
}

interface CopiedSum extends CopyRoute {
  readonly bytes: number;
}

/** The bytes that the copies of this process have received, including copies that have ended. */
export class CopiedBytes {
  readonly #sums = new Map<string, CopiedSum>();

  add({ from, to, method }: CopyRoute, bytes: bigint): void {
    const key = JSON.stringify([from, to, method]);
    this.#sums.set(key, { from, to, method, bytes: Number(bytes) + (this.#sums.get(key)?.bytes ?? 0) });
  }

  all(): readonly CopiedSum[] {
    return [...this.#sums.values()];
  }
}

/** When bytes of a copy last arrived, and how many are new. */
export class StallDetector {
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
  start(): void {
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

/** The state of a copy from its record, with the progress if it runs in this process. The state is "unreadable" if the record cannot be used. */
export function copyState(
  target: Handle,
  stored: StoredCopy,
  running: { readonly record: CopyRecord; readonly status: CopyStatus } | undefined,
): CopyState {
  const handle = encodeHandle(target);
  try {
    const record = running?.record ?? recordOf(stored, `volume ${handle}`);
    const { origin, name, role, method, pass, done, total, asked, holder, fault } = record;
    const state = record.state === "copying" && holder === "" && !running ? "paused" : record.state;
    const { perSecond = 0, ahead } = running?.status ?? {};
    return {
      ...{ kind: "copy", target: handle, source: origin.handle, sourceKind: origin.kind, name, role },
      ...{ state, method, pass, done, total, rate: BigInt(perSecond), asked, holder, fault },
      ...(ahead !== undefined && { ahead }),
    };
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    const nothing = { source: "", sourceKind: "volume", name: "", role: "create", state: "unreadable" } as const;
    const zero = { pass: 0, done: 0n, total: 0n, rate: 0n, asked: 0, holder: "" };
    return { kind: "copy", target: handle, ...nothing, ...zero, fault: error.message };
  }
}
