import type { Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Look } from "./care.ts";
import { hasLostDisk, readOnlyByItself } from "./condition.ts";
import type { Disks } from "./disks.ts";
import type { Mounts } from "./mounts.ts";
import { isOwn } from "./ownership.ts";
import { type Records, type StageRecord, stagedAt } from "./records.ts";

/** What was last known against a volume; empty: nothing. */
type State =
  | ""
  | "not mounted"
  | "unknown to its server"
  | "without an answer from its server"
  | "without its disk"
  | "read-only, mostly after an error";

const states = { fine: "", stale: "unknown to its server", silent: "without an answer from its server" } as const;

/**
 * Logs what changed with staged volumes, once: a server that fell silent, a disk that is gone, a mount that somebody removed, and
 * that all is well again. It mends nothing: the next staging does, when a pod needs the volume.
 */
export class Watching implements Look {
  readonly #mounts: Mounts;
  readonly #records: Records;
  readonly #disks: Pick<Disks, "isGone">;
  readonly #known = new Map<string, State>();

  constructor(mounts: Mounts, records: Records, disks: Pick<Disks, "isGone">) {
    this.#mounts = mounts;
    this.#records = records;
    this.#disks = disks;
  }

  /** One look at all of them, one after the other. */
  async look(log: Log, signal: AbortSignal): Promise<void> {
    const attached = (await this.#records.all()).filter(record => record.attached !== undefined);
    const here = new Set(attached.map(({ volumeId }) => volumeId));
    for (const volumeId of this.#known.keys()) if (!here.has(volumeId)) this.#known.delete(volumeId);
    for (const record of attached) {
      try {
        this.#tell(record, await this.#stateOf(record, signal), log);
      } catch (error) {
        if (!(error instanceof CsiError)) throw error;
        log.debug("a staged volume could not be looked at", { volumeId: record.volumeId, reason: error.message });
      }
    }
  }

  async #stateOf(record: StageRecord, signal: AbortSignal): Promise<State> {
    const table = await this.#mounts.table();
    const at = stagedAt(record);
    const top = table.top(at);
    if (!top || !(await isOwn(record.volumeId, record, at, table, this.#records))) return "not mounted";
    if (await hasLostDisk(record, this.#disks)) return "without its disk";
    if (readOnlyByItself(top, record)) return "read-only, mostly after an error";
    return states[await this.#mounts.health(top, signal)];
  }

  #tell({ volumeId, stagingPath }: StageRecord, state: State, log: Log): void {
    const before = this.#known.get(volumeId) ?? "";
    this.#known.set(volumeId, state);
    if (state === before) return;
    if (state === "") log.info("a staged volume is well again", { volumeId, before });
    else log.warn(`a staged volume is ${state}`, { volumeId, stagingPath });
  }
}
