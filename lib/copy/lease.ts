import { randomUUID } from "node:crypto";
import type { Call } from "../core/call.ts";
import { CsiError, detailOf } from "../core/errors.ts";
import { pause } from "../core/time.ts";
import type { TakingAbility } from "../drivers/copying.ts";
import { type CopyRecord, recordIn, writeRecord } from "./record.ts";
import type { CopyTimes } from "./times.ts";

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
    const found = landing && recordIn(landing, `volume ${target}`);
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
