import { randomUUID } from "node:crypto";
import type { Call } from "../core/call.ts";
import { CsiError, detailOf } from "../core/errors.ts";
import { pause } from "../core/time.ts";
import type { TakingAbility } from "../drivers/copying.ts";
import { type CopyRecord, recordOf, writeRecord } from "./record.ts";

/** The times of running copies, in milliseconds. Tests use shorter ones. */
export interface CopyTimes {
  /** How often the owner of a copy writes into its record. */
  readonly beat: number;
  /** An owner that could not write for this long ends its programs: less than `takeOver`. */
  readonly lost: number;
  /** A copy whose record has not changed for this long no longer has an owner. */
  readonly takeOver: number;
  /** How long a new owner waits before it verifies that no other process has become the owner at the same time. */
  readonly settle: number;
  /**
   * How long a new owner waits if its write took longer than `settle`. The write may have replaced that of another owner, which notices it
   * after a beat, or at the latest after 1.25 times `lost`. Less than `takeOver`.
   */
  readonly late: number;
  /** How long a file must have been unchanged when a pass by files begins, for the next pass to skip its content. */
  readonly unchanged: number;
  /** The first pause before a failed copy is tried again, and the longest. */
  readonly firstPause: number;
  readonly longestPause: number;
  /** How long a copy runs at least before it waits for its next turn, while others wait for theirs. */
  readonly turn: number;
  /** How long a request waits for the end of a copy: less than the 10 s that external-provisioner waits by default. */
  readonly ask: number;
  /** The longest time between two log lines about progress. */
  readonly tell: number;
  /** A copy that has received no data for this long is reported as stalled. */
  readonly stalled: number;
}

/** The times of a real process. */
export const usualTimes: CopyTimes = {
  beat: 30_000,
  lost: 60_000,
  takeOver: 90_000,
  settle: 2_000,
  late: 80_000,
  unchanged: 600_000,
  firstPause: 1_000,
  longestPause: 60_000,
  turn: 300_000,
  ask: 8_000,
  tell: 600_000,
  stalled: 600_000,
};

/** Seconds since 1970. */
export const seconds = (): number => Math.floor(Date.now() / 1_000);

/**
 * Knows which copies other processes work on. An owner has gone if the beat in its record has not changed for `takeOver` since this process
 * first saw it. Only this machine's monotonic clock is used.
 */
export class LeaseWatch {
  readonly #times: CopyTimes;
  readonly #now: () => number;
  readonly #seen = new Map<string, { readonly owner: string; readonly beat: number; readonly since: number }>();

  /** `now` returns monotonic milliseconds. */
  constructor(times: CopyTimes, now: () => number = () => performance.now()) {
    this.#times = times;
    this.#now = now;
  }

  /** "free": it has no owner, or the owner is `self`, which does not run it; "gone": its owner has gone; "taken": another process works on it. */
  judge(target: string, { owner, beat }: CopyRecord, self: string): "free" | "gone" | "taken" {
    if (owner === "" || owner === self) {
      this.#seen.delete(target);
      return "free";
    }
    if (isEarlier(owner, self)) return "gone";
    const last = this.#seen.get(target);
    if (last?.owner === owner && last.beat === beat)
      return this.#now() - last.since >= this.#times.takeOver ? "gone" : "taken";
    this.#seen.set(target, { owner, beat, since: this.#now() });
    return "taken";
  }

  /** Forgets a copy that has ended. */
  forget(target: string): void {
    this.#seen.delete(target);
  }
}

/** The name of a process in records. `held`: an id that only one process has at a time (`heldId`), or undefined. */
export const ownerName = (held: string | undefined): string =>
  held === undefined ? randomUUID() : `${held}.${randomUUID()}`;

/** Whether a process had the same held id as `self` before: it has ended. */
function isEarlier(owner: string, self: string): boolean {
  const [held, own] = self.split(".");
  return own !== undefined && owner.startsWith(`${held}.`);
}

/** A copy's record on its target. */
export interface RecordPlace {
  /** The CSI id of the new volume. */
  readonly target: string;
  /** The driver's id. */
  readonly id: string;
  readonly use: <T>(work: (taking: TakingAbility) => Promise<T>) => Promise<T>;
}

/** The ownership of one copy: only its owner writes the record, until it gives the ownership up or loses it. */
export class CopyLease {
  readonly #place: RecordPlace;
  readonly #self: string;
  readonly #times: CopyTimes;
  readonly #call: Call;
  readonly #lost: (why: CsiError) => void;
  #record: CopyRecord;
  /** When the last successful write began. */
  #written = performance.now();
  #queue: Promise<unknown> = Promise.resolve();
  #timers: ReturnType<typeof setInterval>[] = [];
  #isLost = false;
  #isLeft = false;
  #isCancelled = false;

  /** `call`: the call of the copy. `lost` is called once if another process becomes the owner, or the record can no longer be written. */
  constructor(
    place: RecordPlace,
    record: CopyRecord,
    self: string,
    times: CopyTimes,
    call: Call,
    lost: (why: CsiError) => void,
  ) {
    this.#place = place;
    this.#record = record;
    this.#self = self;
    this.#times = times;
    this.#call = call;
    this.#lost = lost;
  }

  /** The record as it is on the target, with changes that the next write adds. */
  get record(): CopyRecord {
    return this.#record;
  }

  /** Whether another process has cancelled the copy, according to the last read of the record. */
  get isCancelled(): boolean {
    return this.#isCancelled;
  }

  /**
   * Becomes the owner. Throws "aborted" if another process is the owner, or becomes it at the same time. If the write was slow, another
   * process may have become the owner before it took effect: this one then waits until the other has read the record and ended its programs.
   */
  async claim(change: Partial<CopyRecord>): Promise<void> {
    const { owner, beat: before } = this.#record;
    const began = performance.now();
    await this.#place.use(taking => this.#verify(taking, this.#call, owner, before));
    this.#record = { ...this.#record, ...change, owner: this.#self, beat: before + 1 };
    const text = writeRecord(this.#record);
    await this.#place.use(taking => taking.note(this.#place.id, text, this.#call));
    const { settle, late } = this.#times;
    const isLate = performance.now() - began > settle;
    await pause(isLate ? late : settle, this.#call.signal);
    if (isLate) await this.#writeNow();
    else await this.#place.use(taking => this.#verify(taking));
    if (!isLate) this.#written = began;
    const beat = setInterval(() => void this.write({}).catch(() => {}), this.#times.beat);
    const watch = setInterval(() => this.#watch(), this.#times.lost / 4);
    this.#timers = [beat, watch];
    for (const timer of this.#timers) timer.unref();
  }

  /** Changes the record; durable when it resolves. Throws if this process is no longer the owner. */
  write(change: Partial<CopyRecord>): Promise<void> {
    if (this.#isLeft) return Promise.reject(taken(this.#place.target));
    this.#record = { ...this.#record, ...change };
    const done = this.#queue.then(() => this.#writeNow());
    this.#queue = done.catch(() => {});
    return done;
  }

  /** Changes the record with the next write; for progress. */
  set(change: Partial<CopyRecord>): void {
    this.#record = { ...this.#record, ...change };
  }

  /** Gives the ownership up with a last change, unless another process is the owner. Throws if the record cannot be written. */
  async leave(change: Partial<CopyRecord>, call: Call): Promise<void> {
    this.#stop();
    this.#isLeft = true;
    await this.#queue;
    if (this.#isLost) return;
    this.#record = { ...this.#record, ...change, owner: "" };
    await this.#place.use(async taking => {
      await this.#verify(taking, call);
      await taking.note(this.#place.id, writeRecord(this.#record), call);
    });
  }

  #stop(): void {
    for (const timer of this.#timers) clearInterval(timer);
    this.#timers = [];
  }

  async #writeNow(): Promise<void> {
    if (this.#isLost) throw taken(this.#place.target);
    const began = performance.now();
    this.#record = { ...this.#record, beat: this.#record.beat + 1 };
    try {
      await this.#place.use(async taking => {
        await this.#verify(taking);
        await taking.note(this.#place.id, writeRecord({ ...this.#record, owner: this.#self }), this.#call);
      });
      this.#written = began;
    } catch (error) {
      this.#call.log.debug("a copy's record could not be written", { reason: detailOf(error) });
      throw error;
    }
  }

  /** Throws "aborted" unless the record still names this process, or `owner` with this beat. */
  async #verify(taking: TakingAbility, call = this.#call, owner = this.#self, beat?: number): Promise<void> {
    const { id, target } = this.#place;
    const landing = await taking.find(id, call);
    const found = landing && recordOf(landing, `volume ${target}`);
    // A claim is for the round that its caller has read: `freeze` may have excluded that since.
    const isSame =
      found?.owner === owner && (beat === undefined || (found.beat === beat && found.frozen === this.#record.frozen));
    if (isSame && found.state !== "cancelled") return;
    this.#isCancelled = found?.state === "cancelled" && found.owner === this.#self;
    const why = !found || found.state === "cancelled" ? cancelled(target) : taken(target);
    this.#lose(why);
    throw why;
  }

  #watch(): void {
    if (performance.now() - this.#written < this.#times.lost) return;
    const text = `the copy to volume ${this.#place.target} was interrupted, because its record could not be written for ${this.#times.lost / 1_000} s; it continues with the next request`;
    this.#lose(new CsiError("unavailable", text));
  }

  #lose(why: CsiError): void {
    if (this.#isLost) return;
    this.#isLost = true;
    this.#stop();
    this.#lost(why);
  }
}

const taken = (target: string): CsiError =>
  new CsiError("aborted", `volume ${target} is being copied by another csimux`);

const cancelled = (target: string): CsiError =>
  new CsiError("aborted", `the copy to volume ${target} was cancelled; retry`);
