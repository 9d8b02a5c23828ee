import type { Call, Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { encodeHandle, type Handle } from "../core/handle.ts";
import type { CopySettings } from "../core/proxy.ts";
import { within } from "../core/time.ts";
import type { StillHeld, StoredCopy } from "../drivers/copying.ts";
import type { Connections } from "../mux/connections.ts";
import type { StorageCalls } from "../mux/storage-calls.ts";
import type { CopyByStream, CopyWork, UseDriver } from "./copy-work.ts";
import { CopyLease, type CopyTimes, holderName, LeaseWatch, usualTimes } from "./lease.ts";
import { CopiedBytes, type CopiesView, copyState } from "./progress.ts";
import type { CopyState } from "./protocol.ts";
import { CopyQueue } from "./queue.ts";
import { type CopyRecord, heldElsewhere, type RecordPlace } from "./record.ts";
import type { CopyRemoval } from "./removal.ts";
import { FileListings } from "./rsync/unchanged-files.ts";
import { RunningCopy } from "./running-copy.ts";

/** The parts that the copies of a process use. */
export interface RunningCopiesParts {
  readonly use: UseDriver;
  readonly stream: CopyByStream;
  /** The current settings of the main file. */
  readonly settings: () => CopySettings;
  readonly log: Log;
  readonly times?: CopyTimes;
  /** Takes an id that only one process has at a time: the leases of an earlier process with that id have expired. */
  readonly lockedId?: (() => Promise<string | undefined>) | undefined;
}

/**
 * The copies that run in this process. Their parameters and progress are in the records on their targets, so that another process can
 * continue them.
 */
export class RunningCopies {
  readonly times: CopyTimes;
  readonly settings: () => CopySettings;
  readonly #parts: RunningCopiesParts;
  readonly #turns: CopyQueue;
  readonly #watch: LeaseWatch;
  readonly #listings: FileListings;
  readonly #copied = new CopiedBytes();
  readonly #running = new Map<string, { readonly copy: RunningCopy; readonly source: string }>();
  #self: string | undefined;
  #identified: Promise<void> | undefined;
  #isStopping = false;
  /** The targets whose lease `withLease` holds. */
  readonly #leased = new Set<string>();
  /** Work that continues after an answer. */
  readonly #after = new Set<Promise<void>>();

  constructor(parts: RunningCopiesParts) {
    this.#parts = parts;
    this.times = parts.times ?? usualTimes;
    this.settings = parts.settings;
    this.#turns = new CopyQueue(parts.settings);
    this.#watch = new LeaseWatch(this.times);
    this.#listings = new FileListings(this.times.unchanged);
  }

  /**
   * Takes the locked id. To be called before a record is compared with this process, and not at its start: that takes a program, and most
   * processes copy nothing.
   */
  identify(): Promise<void> {
    const take = async () => {
      this.#self ??= holderName(await this.#parts.lockedId?.());
    };
    this.#identified ??= take();
    return this.#identified;
  }

  /** The name of this process in records; never changes. */
  get self(): string {
    this.#self ??= holderName(undefined);
    return this.#self;
  }

  /** The copy to this volume that runs or waits in this process. */
  running(target: Handle): RunningCopy | undefined {
    return this.#running.get(encodeHandle(target))?.copy;
  }

  /** The copies that run or wait in this process, and the bytes that they have received since it started. Does no I/O. */
  view(): CopiesView {
    return { running: [...this.#running.values()].map(({ copy }) => copy.status), copied: this.#copied.all() };
  }

  /** The state of a copy from its record, with the progress if it runs in this process. */
  state(connection: string, stored: StoredCopy): CopyState {
    const target = { kind: "volume", connection, id: stored.id } as const;
    return copyState(target, stored, this.running(target));
  }

  /** Throws "aborted" if the object is source or target of a copy that runs here. Synchronous, for callers that hold its lock. */
  refuseBusy(handle: Handle): void {
    const text = encodeHandle(handle);
    const found = this.#running.get(text) ?? [...this.#running.values()].find(({ source }) => source === text);
    if (found) throw new CsiError("aborted", `${text} cannot be changed now: ${found.copy.text}`);
  }

  /**
   * Which process works on the copy with this record: none ("none"), one that has ended ("expired"), or another one, or this one ("held"). From
   * the first call for a heartbeat, its process has `takeoverAfter` for the next one.
   */
  observeLease(target: Handle, record: CopyRecord): "none" | "expired" | "held" {
    if (this.running(target) || this.#leased.has(encodeHandle(target))) return "held";
    return this.#watch.observe(encodeHandle(target), record, this.self);
  }

  /** The error for a copy whose lease is "held", and which does not run in this process. */
  whyHeld(target: Handle, record: CopyRecord): CsiError {
    const volume = encodeHandle(target);
    if (!this.#leased.has(volume)) return heldElsewhere(volume, record);
    return new CsiError("aborted", `another request is changing the record of the copy to volume ${volume}; retry`);
  }

  /**
   * Runs `work` as the holder of a copy that does not run, and changes the record by `begin` before it and by `end` after it; durable when it
   * resolves. The signal of `work` aborts if the lease is lost. Throws "aborted" if another process is the holder, or the record is no longer
   * as the caller has read it.
   */
  async withLease<T>(
    { target, place, record, begin = {}, end = {}, failed = {} }: LeasedWork,
    call: Call,
    work: (own: Call, stillHeld: StillHeld) => Promise<T>,
  ): Promise<T> {
    if (this.observeLease(target, record) === "held") throw this.whyHeld(target, record);
    this.#leased.add(place.target);
    const lost = new AbortController();
    const own = { ...call, signal: AbortSignal.any([call.signal, lost.signal]) };
    const lease = new CopyLease(place, record, this.self, this.times, own, why => lost.abort(why));
    const leave = (change: Partial<CopyRecord>) =>
      lease.leave(change, { ...call, signal: AbortSignal.timeout(this.times.leaseTimeout) });
    try {
      await lease.claim(begin);
      const result = await work(own, () => lease.stillHeld());
      await leave(end);
      return result;
    } catch (error) {
      await leave(failed).catch(() => {});
      throw lost.signal.aborted ? lost.signal.reason : error;
    } finally {
      this.#leased.delete(place.target);
    }
  }

  /** Lets work continue after an answer; `stop` waits for it. */
  afterwards(work: Promise<void>): void {
    const done = work.finally(() => this.#after.delete(done));
    this.#after.add(done);
  }

  /**
   * Starts or continues a copy from the record that the caller has read; returns it if it already runs. Throws "unavailable" while csimux
   * stops, and "aborted" while its target becomes the volume: nothing may write into that.
   */
  start(work: CopyWork): RunningCopy {
    if (this.#isStopping) throw new CsiError("unavailable", "csimux is stopping; retry");
    const target = encodeHandle(work.target);
    if (this.#leased.has(target)) throw this.whyHeld(work.target, work.record);
    const known = this.#running.get(target);
    if (known) return known.copy;
    const { use, stream, log, settings } = this.#parts;
    const copy = new RunningCopy(work, {
      ...{ use, stream, log, times: this.times, self: this.self, idleMs: () => settings().idleMs },
      ...{ turns: this.#turns, copied: this.#copied, listings: this.#listings },
    });
    this.#running.set(target, { copy, source: encodeHandle(work.source) });
    void copy.done.finally(() => {
      this.#running.delete(target);
      this.#watch.ended(target);
    });
    return copy;
  }

  /** Interrupts all copies, and waits until they have given up their leases and for work after answers, up to `limitMs` milliseconds for both. */
  async stop(limitMs: number): Promise<void> {
    const end = performance.now() + limitMs;
    this.#isStopping = true;
    const all = [...this.#running.values()].map(({ copy }) => copy);
    for (const copy of all)
      copy.stop(new CsiError("unavailable", "csimux is stopping; the copy continues with the next request"));
    await within(Promise.all(all.map(({ done }) => done)), limitMs);
    await within(Promise.all(this.#after), Math.max(0, end - performance.now()));
  }
}

/** What `withLease` needs. */
interface LeasedWork {
  readonly target: Handle;
  readonly place: RecordPlace;
  /** As the caller has read it. */
  readonly record: CopyRecord;
  readonly begin?: Partial<CopyRecord>;
  readonly end?: Partial<CopyRecord>;
  /** The change after an error of `work`. */
  readonly failed?: Partial<CopyRecord>;
}

/** What the copies of a process share. */
export interface CopyingParts {
  readonly connections: Connections;
  readonly calls: StorageCalls;
  readonly copies: RunningCopies;
  readonly removal: CopyRemoval;
}
