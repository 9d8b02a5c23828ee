import { access } from "node:fs/promises";
import type { Call, Log } from "../../core/call.ts";
import { errnoOf } from "../../core/errno.ts";
import { CsiError } from "../../core/errors.ts";
import type { Mounts } from "../mount/mounts.ts";
import type { UnstageRequest } from "../requests.ts";
import type { PeriodicTask } from "./maintenance.ts";
import { type StageRecord, type StageRecords, stagedAt } from "./stage-records.ts";

/**
 * Unstages volumes that nobody asks for any more: nothing of them is mounted, and their staging folder, which the kubelet makes
 * before it stages and removes after it has unstaged, is gone. So it is after pods were removed by force or the kubelet's folder
 * was emptied; their sessions would stay for ever. What is in use stays, as with every unstaging.
 */
export class OrphanedVolumes implements PeriodicTask {
  readonly #mounts: Mounts;
  readonly #records: StageRecords;
  readonly #unstage: (request: UnstageRequest, call: Call) => Promise<void>;
  /** Volumes that looked so the last time: one look alone may come between two steps of the kubelet. */
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
    const places = [stagedAt(record), ...record.published.map(({ target }) => target)];
    if (places.some(place => table.layers(place) > 0)) return false;
    return await access(record.stagingPath).then(
      () => false,
      cause => errnoOf(cause) === "ENOENT",
    );
  }

  async #remove({ volumeId, stagingPath }: StageRecord, call: Call): Promise<void> {
    try {
      await this.#unstage({ volumeId, stagingPath }, call);
      call.log.info("a volume that is gone from this node was unstaged", { volumeId });
    } catch (error) {
      if (!(error instanceof CsiError)) throw error;
      call.log.warn("a volume that is gone from this node could not be unstaged", { volumeId, reason: error.message });
    }
  }
}
