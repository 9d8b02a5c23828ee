import { CsiError } from "../core/errors.ts";
import { encodeHandle, type Handle } from "../core/handle.ts";
import type { StoredCopy } from "../drivers/copying.ts";
import type { CopyState } from "./protocol.ts";
import { type CopyRecord, recordOf } from "./record.ts";

/** The state of a copy, for messages. */
export interface CopyProgress extends Pick<CopyRecord, "name" | "method" | "done" | "total" | "fault"> {
  /** The connection of its source. */
  readonly from: string;
  /** Bytes per second; 0: unknown. */
  readonly rate: bigint;
  /** While it waits for its turn: the number of copies before it; undefined: it runs. */
  readonly ahead: number | undefined;
}

/** How long the rate is averaged, in milliseconds. */
const window = 30_000;

/** The shortest time between two samples of the rate, in milliseconds. */
const grain = 250;

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
    if (before && at - before.at < grain) this.#samples.pop();
    this.#samples.push({ at, bytes });
    while ((this.#samples[0]?.at ?? at) < at - window) this.#samples.shift();
  }

  /** Bytes per second; 0 if unknown. */
  get perSecond(): bigint {
    const [first] = this.#samples;
    const last = this.#samples.at(-1);
    if (!first || !last || last.at - first.at < 1_000) return 0n;
    return ((last.bytes - first.bytes) * 1_000n) / BigInt(Math.max(1, Math.round(this.#now() - first.at)));
  }
}

const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** The power of 1024 in which a size has at most four digits. */
function scale(bytes: bigint): number {
  let power = 0;
  while (power < units.length - 1 && bytes >> BigInt(10 * (power + 1)) > 0n) power++;
  return power;
}

const inUnit = (bytes: bigint, power: number): string => {
  const value = Number(bytes) / 1024 ** power;
  return power === 0 || value >= 10 ? String(Math.floor(value)) : value.toFixed(1);
};

/** "37 of 120 GiB", "37 GiB" if the total is unknown. */
function amount(done: bigint, total: bigint): string {
  if (total === 0n || total < done) return `${inUnit(done, scale(done))} ${units[scale(done)]}`;
  return `${inUnit(done, scale(total))} of ${inUnit(total, scale(total))} ${units[scale(total)]}`;
}

function left(seconds: bigint): string {
  if (seconds < 120n) return `about ${seconds} s left`;
  return seconds < 7_200n ? `about ${seconds / 60n} min left` : `about ${seconds / 3_600n} h left`;
}

/** The text about a copy for the event of its claim. */
export function progressText({ name, from, method, done, total, rate, ahead, fault }: CopyProgress): string {
  const what = `volume "${name}" is being copied from connection "${from}" (${method})`;
  const failed = fault === "" ? "" : `; last attempt failed, retrying: ${fault}`;
  const front = ahead === 1 ? "1 copy" : `${ahead} copies`;
  if (ahead !== undefined) return `${what}: queued, ${front} ahead${failed}`;
  const parts = [
    ...(done > 0n ? [amount(done, total)] : []),
    ...(rate > 0n ? [`${inUnit(rate, scale(rate))} ${units[scale(rate)]}/s`] : []),
    ...(rate > 0n && total > done ? [left((total - done) / rate)] : []),
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

/** The two connections of a copy, and its method. */
export interface CopyRoute extends Pick<CopyProgress, "from" | "method"> {
  /** The connection of its target. */
  readonly to: string;
}

/** Bytes that have arrived by a route since the process started. */
export interface CopiedSum extends CopyRoute {
  readonly bytes: bigint;
}

/** A copy that runs or waits in this process. Sizes are bytes. */
export interface CopyView extends CopyRoute, Pick<CopyProgress, "done" | "total" | "rate" | "fault" | "ahead"> {
  /** The CSI id of the new volume. */
  readonly target: string;
  /** Whether it has received no data for ten minutes while it did not wait for its turn. Undefined: its method ("restore") reports no progress. */
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

  add({ from, to, method }: CopyRoute, bytes: bigint): void {
    const key = JSON.stringify([from, to, method]);
    this.#sums.set(key, { from, to, method, bytes: bytes + (this.#sums.get(key)?.bytes ?? 0n) });
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

/** The state of a copy from its record, with the progress if it runs in this process. The state is "unreadable" if the record cannot be used. */
export function copyState(
  target: Handle,
  stored: StoredCopy,
  running: { readonly record: CopyRecord; readonly progress: CopyProgress } | undefined,
): CopyState {
  const handle = encodeHandle(target);
  try {
    const record = running?.record ?? recordOf(stored, `volume ${handle}`);
    const { origin, name, role, method, pass, done, total, asked, holder, fault } = record;
    const state = record.state === "copying" && holder === "" && !running ? "paused" : record.state;
    const { rate = 0n, ahead } = running?.progress ?? {};
    return {
      ...{ kind: "copy", target: handle, source: origin.handle, sourceKind: origin.kind, name, role },
      ...{ state, method, pass, done, total, rate, asked, holder, fault },
      ...(ahead !== undefined && { ahead }),
    };
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    const nothing = { source: "", sourceKind: "volume", name: "", role: "create", state: "unreadable" } as const;
    const zero = { pass: 0, done: 0n, total: 0n, rate: 0n, asked: 0, holder: "" };
    return { kind: "copy", target: handle, ...nothing, ...zero, fault: error.message };
  }
}
