import { randomUUID } from "node:crypto";
import type { Call } from "../core/call.ts";
import { CsiError, detailOf, hasCode } from "../core/errors.ts";
import { pause } from "../core/time.ts";
import { type CopyRecord, currentRecord, heldElsewhere, type RecordPlace, replaceRecord } from "./record.ts";

/** The times of running copies, in milliseconds. Tests use shorter ones. */
export interface CopyTimes {
  /** How often the holder of a copy writes into its record. */
  readonly heartbeat: number;
  /** A holder that could not write for this long ends its programs: less than `takeoverAfter`. */
  readonly leaseTimeout: number;
  /** A copy whose record has not changed for this long no longer has a holder. */
  readonly takeoverAfter: number;
  /** How long a new holder waits before it verifies that no other process has become the holder at the same time. */
  readonly verifyDelay: number;
  /**
   * How long a new holder waits if its write took longer than `verifyDelay`. The write may have replaced that of another holder, which notices it
   * after a heartbeat, or at the latest after 1.25 times `leaseTimeout`. Less than `takeoverAfter`.
   */
  readonly slowClaimDelay: number;
  /** How long a file must have been unchanged when a pass by files begins, for the next pass to skip its content. */
  readonly unchanged: number;
  /** The first pause before a failed copy is tried again, and the longest. */
  readonly firstPause: number;
  readonly longestPause: number;
  /** How long a copy runs at least before it waits for its next turn, while others wait for theirs. */
  readonly turn: number;
  /** How long a request waits for the end of a copy: less than the 10 s that external-provisioner waits by default. */
  readonly answerWithin: number;
  /** The longest time between two log lines about progress. */
  readonly progressLogEvery: number;
  /** A copy that has received no data for this long is reported as stalled. */
  readonly stalled: number;
}

/** The times of a real process. */
export const usualTimes: CopyTimes = {
  heartbeat: 30_000,
  leaseTimeout: 60_000,
  takeoverAfter: 90_000,
  verifyDelay: 2_000,
  slowClaimDelay: 80_000,
  unchanged: 600_000,
  firstPause: 1_000,
  longestPause: 60_000,
  turn: 300_000,
  answerWithin: 8_000,
  progressLogEvery: 600_000,
  stalled: 600_000,
};

/** Seconds since 1970. */
export const seconds = (): number => Math.floor(Date.now() / 1_000);

/**
 * Knows which copies other processes work on. A holder has gone if the heartbeat in its record has not changed for `takeoverAfter` since this process
 * first saw it. Only this machine's monotonic clock is used.
 */
export class LeaseWatch {
  readonly #times: CopyTimes;
  readonly #now: () => number;
  readonly #seen = new Map<string, { readonly holder: string; readonly heartbeat: number; readonly since: number }>();

  /** `now` returns monotonic milliseconds. */
  constructor(times: CopyTimes, now: () => number = () => performance.now()) {
    this.#times = times;
    this.#now = now;
  }

  /**
   * "none": it has no holder, or the holder is `self`, which does not run it; "expired": its holder has gone; "held": another process works on it,
   * or was killed less than `takeoverAfter` ago. The first call for a heartbeat starts that time, so it is called for each copy that is met.
   */
  observe(target: string, { holder, heartbeat }: CopyRecord, self: string): "none" | "expired" | "held" {
    if (holder === "" || holder === self) {
      this.#seen.delete(target);
      return "none";
    }
    if (isEarlier(holder, self)) return "expired";
    const last = this.#seen.get(target);
    if (last?.holder === holder && last.heartbeat === heartbeat)
      return this.#now() - last.since >= this.#times.takeoverAfter ? "expired" : "held";
    this.#seen.set(target, { holder, heartbeat, since: this.#now() });
    return "held";
  }

  /** To be called when a copy of this process has ended. */
  ended(target: string): void {
    this.#seen.delete(target);
  }
}

/** The name of a process in records. `locked`: an id that only one process has at a time (`lockedId`), or undefined. */
export const holderName = (locked: string | undefined): string =>
  locked === undefined ? randomUUID() : `${locked}.${randomUUID()}`;

/** Whether a process had the same locked id as `self` before: it has ended. */
function isEarlier(holder: string, self: string): boolean {
  const [locked, own] = self.split(".");
  return own !== undefined && holder.startsWith(`${locked}.`);
}

/** The lease of one copy: only its holder writes the record, until it gives the lease up or loses it. */
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
  /** Why it was lost; undefined while it is not. */
  #whyLost: CsiError | undefined;
  #isLeft = false;
  #isCancelled = false;

  /** `call`: the call of the copy. `lost` is called once if another process becomes the holder, or the record can no longer be written. */
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
   * Becomes the holder. Throws "aborted" if another process is the holder, or becomes it at the same time. If the write was slow, another
   * process may have become the holder before it took effect: this one then waits until the other has read the record and ended its programs.
   */
  async claim(change: Partial<CopyRecord>): Promise<void> {
    const { holder, heartbeat: before, state } = this.#record;
    const isEnded = holder === "" || holder === this.#self || isEarlier(holder, this.#self);
    // The next holder has to know it, too: this process may give the lease up before it has emptied the target.
    const fence = isEnded || state !== "copying" ? {} : ({ unfenced: true } as const);
    const began = performance.now();
    await this.#verify(this.#call, holder, before);
    this.#record = { ...this.#record, ...change, ...fence, holder: this.#self, heartbeat: before + 1 };
    await this.#replace(this.#record, this.#call);
    const { verifyDelay, slowClaimDelay } = this.#times;
    const isLate = performance.now() - began > verifyDelay;
    await pause(isLate ? slowClaimDelay : verifyDelay, this.#call.signal);
    if (isLate) await this.#writeNow();
    else {
      await this.#verify();
      this.#written = began;
    }
    const heartbeat = setInterval(() => void this.write({}).catch(() => {}), this.#times.heartbeat);
    const watch = setInterval(() => this.#watch(), this.#times.leaseTimeout / 4);
    this.#timers = [heartbeat, watch];
    for (const timer of this.#timers) timer.unref();
  }

  /** Changes the record; durable when it resolves. Throws if this process is no longer the holder. */
  write(change: Partial<CopyRecord>): Promise<void> {
    if (this.#isLeft) return Promise.reject(heldElsewhere(this.#place.target));
    this.#record = { ...this.#record, ...change };
    const done = this.#queue.then(() => this.#writeNow());
    this.#queue = done.catch(() => {});
    return done;
  }

  /** Changes the record with the next write; for progress. */
  set(change: Partial<CopyRecord>): void {
    this.#record = { ...this.#record, ...change };
  }

  /** Gives the lease up with a last change; durable when it resolves. Throws if the lease was lost before, or the record cannot be written. */
  async leave(change: Partial<CopyRecord>, call: Call): Promise<void> {
    this.#stop();
    this.#isLeft = true;
    // Without a limit: a write that took effect later would replace that of the next holder.
    await this.#queue;
    if (this.#whyLost) throw this.#whyLost;
    this.#record = { ...this.#record, ...change, holder: "" };
    await this.#verify(call);
    await this.#replace(this.#record, call);
  }

  #stop(): void {
    for (const timer of this.#timers) clearInterval(timer);
    this.#timers = [];
  }

  async #writeNow(): Promise<void> {
    if (this.#whyLost) throw this.#whyLost;
    const began = performance.now();
    this.#record = { ...this.#record, heartbeat: this.#record.heartbeat + 1 };
    try {
      await this.#verify();
      await this.#replace({ ...this.#record, holder: this.#self }, this.#call);
      this.#written = began;
    } catch (error) {
      this.#call.log.debug("a copy's record could not be written", { reason: detailOf(error) });
      throw error;
    }
  }

  /** Throws "aborted" unless this process is still the holder, according to the record as it is now. */
  async stillHeld(): Promise<void> {
    if (this.#whyLost) throw this.#whyLost;
    await this.#verify();
  }

  /** Throws "aborted" unless the record still names this process, or `holder` with this heartbeat. */
  async #verify(call = this.#call, holder = this.#self, heartbeat?: number): Promise<void> {
    const { target } = this.#place;
    const found = await currentRecord(this.#place, call);
    // A claim is for the pass that its caller has read: `freeze` may have excluded that since.
    const isSame =
      found?.holder === holder &&
      (heartbeat === undefined || (found.heartbeat === heartbeat && found.frozen === this.#record.frozen));
    if (isSame && found.state !== "cancelled") return;
    this.#isCancelled = found?.state === "cancelled" && found.holder === this.#self;
    const why = !found || found.state === "cancelled" ? cancelled(target) : heldElsewhere(target);
    this.#lose(why);
    throw why;
  }

  /** Writes the record. Throws "aborted" if another process has removed it since it was verified, as a cancellation does. */
  async #replace(record: CopyRecord, call: Call): Promise<void> {
    try {
      await replaceRecord(this.#place, record, call);
    } catch (error) {
      if (!hasCode(error, "not-found")) throw error;
      const why = cancelled(this.#place.target);
      this.#lose(why);
      throw why;
    }
  }

  #watch(): void {
    if (performance.now() - this.#written < this.#times.leaseTimeout) return;
    const text = `the copy to volume ${this.#place.target} was interrupted, because its record could not be written for ${this.#times.leaseTimeout / 1_000} s; it continues with the next request`;
    this.#lose(new CsiError("unavailable", text));
  }

  #lose(why: CsiError): void {
    if (this.#whyLost) return;
    this.#whyLost = why;
    this.#stop();
    this.#lost(why);
  }
}

const cancelled = (target: string): CsiError =>
  new CsiError("aborted", `the copy to volume ${target} was cancelled; retry`);
