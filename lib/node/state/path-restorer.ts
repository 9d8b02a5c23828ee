import type { Call, Log } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { KeyedMutex } from "../../io/keyed-mutex.ts";
import type { Attacher } from "../attach/attacher.ts";
import type { Attachers } from "../attach/attachers.ts";
import { withTargetLock } from "../attach/target-lock.ts";
import type { PeriodicTask } from "./maintenance.ts";
import type { StageRecord, StageRecords } from "./stage-records.ts";

/**
 * Reopens lost paths of staged volumes: paths that the kernel and open-iscsi gave up during a network failure, and
 * paths that were down when the volume was staged. With multipath, they provide the disk's redundancy.
 */
export class PathRestorer implements PeriodicTask {
  readonly #attachers: Attachers;
  readonly #records: StageRecords;
  readonly #turns: KeyedMutex;
  /** The last error logged per volume, to avoid repeats. */
  readonly #failed = new Map<string, string>();

  /** `turns` are the locks of attaching and detaching. */
  constructor(attachers: Attachers, records: StageRecords, turns: KeyedMutex) {
    this.#attachers = attachers;
    this.#records = records;
    this.#turns = turns;
  }

  /** Only volumes that share a target wait for each other. */
  async run(log: Log, signal: AbortSignal): Promise<void> {
    const call: Call = { id: "care", signal, log, secrets: {} };
    await Promise.all((await this.#records.all()).map(record => this.#volume(record, call)));
  }

  async #volume(record: StageRecord, call: Call): Promise<void> {
    const attacher = this.#attachers.get(record.protocol);
    if (!attacher?.restore || !record.attached) return;
    const { volumeId } = record;
    try {
      const opened = await withTargetLock(this.#turns, attacher, record.context, call, () =>
        this.#restore(record, attacher, call),
      );
      this.#failed.delete(volumeId);
      if (opened.length > 0) call.log.info("reopened lost paths of a staged volume", { volumeId, opened });
    } catch (error) {
      const reason = error instanceof CsiError ? error.message : "the time limit was reached";
      if (this.#failed.get(volumeId) === reason) return;
      this.#failed.set(volumeId, reason);
      call.log.warn("cannot reopen a lost path of a staged volume; retrying", { volumeId, reason });
    }
  }

  /** Reads the record again: the volume may have been unstaged while this waited for the lock. */
  async #restore({ volumeId }: StageRecord, attacher: Attacher, call: Call): Promise<readonly string[]> {
    const record = await this.#records.find(volumeId, call.log);
    return record?.attached ? ((await attacher.restore?.(record, call)) ?? []) : [];
  }
}
