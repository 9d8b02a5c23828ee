import type { Call, Log } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Turns } from "../../io/turns.ts";
import type { Attacher } from "../attach/attacher.ts";
import type { Attachers } from "../attach/attachers.ts";
import { withTargetLock } from "../attach/target-lock.ts";
import type { PeriodicTask } from "./maintenance.ts";
import type { StageRecord, StageRecords } from "./stage-records.ts";

/**
 * Opens again the ways to storage that staged volumes have lost: what the kernel and open-iscsi gave up while the network was
 * gone, and ways that were dead when the volume was staged. Where several ways make one disk, that is its redundancy.
 */
export class PathRestorer implements PeriodicTask {
  readonly #attachers: Attachers;
  readonly #records: StageRecords;
  readonly #turns: Turns;
  /** What was last said of a volume whose ways could not be opened, so that it is said once. */
  readonly #failed = new Map<string, string>();

  /** `turns` are those of attaching and detaching. */
  constructor(attachers: Attachers, records: StageRecords, turns: Turns) {
    this.#attachers = attachers;
    this.#records = records;
    this.#turns = turns;
  }

  /** Volumes that share a target wait for each other, all others do not. */
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
      if (opened.length > 0)
        call.log.info("ways to a staged volume were lost and are open again", { volumeId, opened });
    } catch (error) {
      const reason = error instanceof CsiError ? error.message : "the look ended before";
      if (this.#failed.get(volumeId) === reason) return;
      this.#failed.set(volumeId, reason);
      call.log.warn("a way to a staged volume is lost and cannot be opened again", { volumeId, reason });
    }
  }

  /** It may have been unstaged while others were waited for. */
  async #restore({ volumeId }: StageRecord, attacher: Attacher, call: Call): Promise<readonly string[]> {
    const record = await this.#records.find(volumeId, call.log);
    return record?.attached ? ((await attacher.restore?.(record, call)) ?? []) : [];
  }
}
