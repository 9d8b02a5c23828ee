import type { Call } from "../core/call.ts";
import { CsiError, isFinal } from "../core/errors.ts";
import { pause } from "../core/time.ts";
import type { CopySource, CopyTarget, SourceSnapshot } from "../drivers/copying.ts";
import {
  asCsiError,
  type CopyAttempt,
  type CopyOutcome,
  type CopyParts,
  type CopyWork,
  copyContent,
  endsCopy,
  isStream,
  machinesOf,
  placeOf,
  retried,
  throwLast,
  withBoth,
} from "./copy-work.ts";
import { CopyLease, seconds } from "./lease.ts";
import { type CopyRoute, type CopyStatus, ProgressDue, progressText, Rate, StallDetector } from "./progress.ts";
import { type CopyRecord, type RecordPlace, writeRecord } from "./record.ts";
import { CopyRemoval } from "./removal.ts";
import type { PassFiles } from "./rsync/unchanged-files.ts";
import { ensureSourceSnapshot } from "./source-snapshot.ts";
import { TurnLength } from "./turn-length.ts";

/** A copy that runs in this process or waits for its turn. Only `finishCopy` makes its target the volume. */
export class RunningCopy {
  readonly #parts: CopyParts;
  readonly #work: CopyWork;
  readonly #place: RecordPlace;
  readonly #stop = new AbortController();
  readonly #lease: CopyLease;
  readonly #call: Call;
  readonly #rate = new Rate();
  readonly #stall: StallDetector;
  #asked = performance.now();
  #ahead: number | undefined;
  readonly #due: ProgressDue;
  #snapshot: SourceSnapshot;
  /** Whether the record was checked against the source; only then is `#snapshot` what the source says. */
  #isChecked = false;
  /**
   * Files that are in the target already are compared by content: a loss of power may have ended the process that wrote them, and in a later
   * pass, a program may have changed the source without a new size or time. `#files` says which can be left out.
   */
  #mustCompare = false;
  readonly #files: PassFiles;
  readonly #turnLength: TurnLength;
  /** Tells its present turn that data has arrived. */
  #moved = (): void => {};
  #claiming: Promise<void> | undefined;
  /** Resolves when it has ended and given up its lease; never rejects. */
  readonly done: Promise<CopyOutcome>;

  constructor(work: CopyWork, parts: CopyParts) {
    const { record } = work;
    this.#place = placeOf(parts.use, work.target);
    const { target } = this.#place;
    this.#parts = parts;
    this.#work = work;
    this.#snapshot = record.snapshot;
    this.#stall = new StallDetector(record.done, parts.times.stalled);
    this.#turnLength = new TurnLength(parts.times.turn);
    this.#due = new ProgressDue(parts.times.progressLogEvery);
    this.#files = parts.listings.take(target, record);
    const log = parts.log.with({ copy: target, from: record.origin.handle });
    this.#call = { id: `copy ${target}`, signal: this.#stop.signal, log, secrets: {} };
    this.#lease = new CopyLease(this.#place, record, parts.self, parts.times, this.#call, why => this.#stop.abort(why));
    this.done = this.#run();
  }

  get record(): CopyRecord {
    return this.#lease.record;
  }

  /** Notes a request for the copy, so that it does not pause. */
  ask(): void {
    this.#asked = performance.now();
    this.#lease.set({ asked: seconds() });
  }

  /** Records the first pass that can become the volume (CopyRecord.frozen). Throws "aborted" if the copy ends meanwhile. */
  async freeze(frozen: number | undefined): Promise<void> {
    await this.#claiming;
    await this.#lease.write({ frozen });
  }

  /** Ends its programs and gives up its lease. */
  stop(why: CsiError): void {
    this.#stop.abort(why);
  }

  get #route(): CopyRoute {
    return { from: this.#work.source.connection, to: this.#work.target.connection, method: this.record.method };
  }

  /** Its state and progress. */
  get status(): CopyStatus {
    const { done, total, fault, method } = this.record;
    const ahead = this.#ahead;
    return {
      ...{ target: this.#place.target, ...this.#route, ahead, fault: fault || undefined },
      state: ahead !== undefined ? "waiting" : fault === "" ? "copying" : "failing",
      ...{ done: Number(done), total: Number(total), perSecond: this.#rate.perSecond },
      stalled: method === "restore" ? undefined : ahead === undefined && this.#stall.isStalled,
    };
  }

  /** The text for the event of its claim. */
  get text(): string {
    return progressText(this.record.name, this.status);
  }

  async #run(): Promise<CopyOutcome> {
    const idle = setInterval(() => this.#watchIdle(), Math.min(this.#parts.times.heartbeat, this.#parts.idleMs()));
    idle.unref();
    try {
      this.#claiming = this.#lease.claim({ state: "copying", fault: "", asked: seconds() });
      await this.#claiming;
      await this.#untilComplete();
      // Counts the bytes that followed the sender's last progress line, by the estimated total.
      if (this.record.method === "zfs-send-local")
        this.#count(this.record.done > this.record.total ? this.record.done : this.record.total);
      await this.#leave({ state: "ready", done: this.record.total || this.record.done, fault: "" });
      this.#parts.listings.keep(this.#place.target, this.record, this.#files);
      this.#call.log.info("all data of the copy has arrived", { pass: this.record.pass });
      return { kind: "ready", record: this.record };
    } catch (error) {
      return await this.#ended(error);
    } finally {
      clearInterval(idle);
    }
  }

  async #ended(error: unknown): Promise<CopyOutcome> {
    const isInterrupted = this.#stop.signal.aborted;
    const cause = asCsiError(isInterrupted ? this.#stop.signal.reason : error);
    // What has arrived is kept if the record cannot be written, such as on a full target.
    const why = isInterrupted || endsCopy(cause, this.record, false) ? cause : retried(cause);
    // The next request of a claim gets the failure instead of another attempt.
    const failsForGood = !isInterrupted && isFinal(why) && this.record.role === "create";
    const end = failsForGood ? ({ state: "cancelled", code: why.code } as const) : {};
    await this.#leave({ ...end, fault: isInterrupted ? this.record.fault : why.message }).catch(() => {});
    if (this.#lease.isCancelled && (await this.#removed())) return { kind: "cancelled", why };
    if (isInterrupted) {
      this.#call.log.info("the copy is interrupted; the next request continues it", { reason: why.message });
      return { kind: "paused", why };
    }
    this.#call.log.warn("the copy cannot continue", { reason: why.message });
    return { kind: "failed", error: why };
  }

  /** Removes a target that another process has cancelled, which could not remove it while this one still wrote into it. */
  #removed(): Promise<boolean> {
    const call = { ...this.#call, signal: AbortSignal.timeout(this.#parts.times.stalled) };
    return new CopyRemoval(this.#parts.use).tryRemoveCancelled(this.#work.target, this.record, call);
  }

  /** The last write must not be aborted with the copy itself. */
  #leave(change: Partial<CopyRecord>): Promise<void> {
    return this.#lease.leave(change, { ...this.#call, signal: AbortSignal.timeout(this.#parts.times.leaseTimeout) });
  }

  /** Repeats attempts until the data is complete, or none can succeed; the pauses between them grow while no data arrives. */
  async #untilComplete(): Promise<void> {
    const { times } = this.#parts;
    let ms = times.firstPause;
    for (;;) {
      const before = this.record.done;
      try {
        while (!(await this.#turn())) ms = times.firstPause;
        return;
      } catch (error) {
        this.#call.signal.throwIfAborted();
        const why = asCsiError(error);
        if (endsCopy(why, this.record, this.#isChecked)) throw why;
        // A source that cannot be asked now is asked after the pause.
        if (why.code === "not-found") await this.#sourceGone(why).catch(throwLast(this.record));
        if (this.record.done > before) ms = times.firstPause;
        this.#call.log.warn("the copy was interrupted and is tried again", { reason: why.message, inMs: ms });
        this.#lease.set({ fault: why.message });
      }
      await pause(ms, this.#call.signal);
      ms = Math.min(2 * ms, times.longestPause);
    }
  }

  /** Copies until the data is complete, or other copies have their turn. Returns whether it is complete. */
  async #turn(): Promise<boolean> {
    const machines = await this.#withBoth(async (source, target) => machinesOf(this.#work, source, target));
    const told = (before: number) => {
      this.#ahead = before;
    };
    const turn = await this.#parts.turns.take(machines, this.#turnLength.ms, this.#call.signal, told);
    if (this.#ahead !== undefined) this.#stall.start();
    this.#ahead = undefined;
    this.#moved = () => turn.moved();
    this.#turnLength.moved();
    try {
      const signal = AbortSignal.any([this.#call.signal, turn.signal]);
      await this.#withBoth((copySource, copyTarget) => this.#copy(copySource, copyTarget, { ...this.#call, signal }));
      return true;
    } catch (error) {
      if (!turn.signal.aborted || this.#call.signal.aborted) throw error;
      if (this.record.method === "rsync") this.#turnLength.cut();
      this.#call.log.info("the copy waits while others have their turn", { done: this.record.done });
      return false;
    } finally {
      turn.end();
    }
  }

  #withBoth<T>(work: (copySource: CopySource, copyTarget: CopyTarget) => Promise<T>): Promise<T> {
    return withBoth(this.#parts.use, this.#work, work);
  }

  /** Asks the source what is copied, and makes the target if it is missing. */
  async #checkRecord(copySource: CopySource, copyTarget: CopyTarget): Promise<void> {
    const before = this.#snapshot;
    this.#snapshot = await ensureSourceSnapshot(this.#work, this.#place.target, this.record, copySource, this.#call);
    if (before.proof === this.#snapshot.proof) this.#lease.set({ snapshot: this.#snapshot });
    else await this.#replaced();
    this.#mustCompare = this.record.dirty;
    if (this.record.unfenced && !isStream(this.record.method)) await this.#emptyTarget();
    else if (!this.#work.isNew) await this.#makeTarget(copyTarget, this.record);
    this.#isChecked = true;
  }

  async #copy(copySource: CopySource, copyTarget: CopyTarget, call: Call): Promise<void> {
    if (!this.#isChecked) await this.#checkRecord(copySource, copyTarget);
    const attempt: CopyAttempt = {
      ...{ work: this.#work, snapshot: this.#snapshot, lease: this.#lease, stream: this.#parts.stream },
      ...{ compare: this.#mustCompare, files: this.#files },
      copied: () => this.#turnLength.moved(),
      emptyTarget: () => this.#emptyTarget(),
      arrived: bytes => this.#arrived(bytes),
    };
    await copyContent(attempt, copySource, copyTarget, call);
  }

  /** `bytes`: all bytes of this pass that have arrived. */
  #arrived(bytes: bigint): void {
    const { total } = this.record;
    this.#rate.add(bytes);
    if (bytes > 0n) this.#moved();
    this.#count(bytes);
    this.#lease.set({ done: bytes, ...(bytes > 0n && { dirty: true, fault: "" }) });
    if (this.#due.isDue(bytes, total)) this.#call.log.info(this.text);
  }

  #count(bytes: bigint): void {
    this.#parts.copied.add(this.#route, this.#stall.add(bytes));
  }

  /**
   * Handles a protected snapshot that was not found. Checks the source first, because its pool may only have been exported. If the snapshot no
   * longer exists, a volume gets a new one, with which the copy continues; for a snapshot, throws `why`. Throws "not-found" without a source.
   */
  async #sourceGone(why: CsiError): Promise<void> {
    const snapshot = await this.#withBoth(copySource =>
      ensureSourceSnapshot(this.#work, this.#place.target, this.record, copySource, this.#call),
    );
    if (snapshot.name === this.#snapshot.name && snapshot.proof === this.#snapshot.proof) return;
    if (this.#work.source.kind === "snapshot") throw why;
    this.#snapshot = snapshot;
    await this.#replaced();
  }

  /** Records the new snapshot. */
  async #replaced(): Promise<void> {
    const snapshot = this.#snapshot;
    this.#call.log.warn("the copied snapshot is gone; the copy takes a new one", { target: this.#work.target.id });
    await this.#lease.write({ snapshot, snapshotTime: seconds(), total: snapshot.toSend, done: 0n });
  }

  /** Makes the target if it is missing. */
  async #makeTarget(copyTarget: CopyTarget, record: CopyRecord): Promise<void> {
    await copyTarget.begin(this.#work.spec, this.#snapshot, writeRecord(record), this.#call);
  }

  /** Replaces the target by an empty one, into which no program of an earlier holder can write. */
  async #emptyTarget(): Promise<void> {
    await this.#place.use(async copyTarget => {
      await copyTarget.empty(this.#place.id, this.#call);
      await this.#makeTarget(copyTarget, this.record);
    });
    this.#mustCompare = false;
    this.#files.restart();
    this.#lease.set({ dirty: false, done: 0n, unfenced: undefined });
    this.#call.log.info("the copy starts again in an empty volume");
  }

  #watchIdle(): void {
    if (performance.now() - this.#asked < this.#parts.idleMs()) return;
    const text = `the copy to volume ${this.#place.target} pauses, because no request for it has arrived`;
    this.#stop.abort(new CsiError("aborted", text));
  }
}
