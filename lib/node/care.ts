import type { Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { Mounts } from "./mounts.ts";
import { isOwn } from "./ownership.ts";
import { type Records, type StageRecord, stagedAt } from "./records.ts";

/** What was last known against a volume; empty: nothing. */
type State = "" | "not mounted" | "unknown to its server" | "without an answer from its server";

const states = { fine: "", stale: "unknown to its server", silent: "without an answer from its server" } as const;

/**
 * Looks at the staged shares of this node from time to time and logs what changed, once: a server that fell silent, a mount that
 * somebody removed, and that all is well again. It mends nothing by itself: the next staging does, when a pod needs the volume.
 */
export class Care {
  readonly #mounts: Mounts;
  readonly #records: Records;
  readonly #known = new Map<string, State>();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(mounts: Mounts, records: Records) {
    this.#mounts = mounts;
    this.#records = records;
  }

  /** Looks every `everyMs` milliseconds until `stop`; a look that takes its time delays the next one. */
  start(everyMs: number, log: Log): void {
    this.#timer = setTimeout(() => {
      void this.look(log, AbortSignal.timeout(everyMs)).finally(() => {
        if (this.#timer) this.start(everyMs, log);
      });
    }, everyMs);
    this.#timer.unref();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** One look at all of them, one after the other. Never throws. */
  async look(log: Log, signal: AbortSignal): Promise<void> {
    const shares = (await this.#records.all()).filter(({ attached }) => attached?.kind === "share");
    const here = new Set(shares.map(({ volumeId }) => volumeId));
    for (const volumeId of this.#known.keys()) if (!here.has(volumeId)) this.#known.delete(volumeId);
    for (const record of shares) {
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
