import { access } from "node:fs/promises";
import type { Call, Log } from "../../core/call.ts";
import { errnoOf } from "../../core/errno.ts";
import { CsiError } from "../../core/errors.ts";
import type { Mounts } from "../mount/mounts.ts";
import type { UnstageRequest } from "../requests.ts";
import type { PeriodicTask } from "./maintenance.ts";
import { type StageRecord, type StageRecords, stagedAt } from "./stage-records.ts";

/**
 * Unstages volumes that are no longer used: none of their mounts exists, and neither does the staging folder, which the
 * kubelet creates before staging and removes after unstaging. This happens after pods are deleted by force or the
 * kubelet's folder is emptied; otherwise their sessions would stay forever. As with every unstaging, a disk in use
 * stays attached.
 */
export class OrphanedVolumes implements PeriodicTask {
  readonly #mounts: Mounts;
  readonly #records: StageRecords;
  readonly #unstage: (request: UnstageRequest, call: Call) => Promise<void>;
  /** Volumes found orphaned in the last run: a single run may fall between two steps of the kubelet. */
  #seen = new Set<string>();

  constructor(mounts: Mounts, records: StageRecords, unstage: (request: UnstageRequest, call: Call) => Promise<void>) {
    this.#mounts = mounts;
    this.#records = records;
    this.#unstage = unstage;
  }

  async run(log: Log, signal: AbortSignal): Promise<void> {
    const seen = new Set<string>();
    for (const record of await this.#records.all()) {
      if (!(await this.#isOrphan(record))) continue;
      seen.add(record.volumeId);
      if (this.#seen.has(record.volumeId)) await this.#remove(record, { id: "care", signal, log, secrets: {} });
    }
    this.#seen = seen;
  }

  async #isOrphan(record: StageRecord): Promise<boolean> {
    const table = await this.#mounts.table();
    const paths = [stagedAt(record), ...record.published.map(({ target }) => target)];
    if (paths.some(path => table.layers(path) > 0)) return false;
    return await access(record.stagingPath).then(
      () => false,
      cause => errnoOf(cause) === "ENOENT",
    );
  }

  async #remove({ volumeId, stagingPath }: StageRecord, call: Call): Promise<void> {
    try {
      await this.#unstage({ volumeId, stagingPath }, call);
      call.log.info("unstaged an orphaned volume", { volumeId });
    } catch (error) {
      if (!(error instanceof CsiError)) throw error;
      call.log.warn("cannot unstage an orphaned volume", { volumeId, reason: error.message });
    }
  }
}
