import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { isLocalName } from "../core/local-filesystems.ts";
import type { Mount } from "../core/mountinfo.ts";
import type { Finding } from "../health/finding.ts";
import type { Condition } from "../health/steady.ts";
import { failureFinding, hasLostDisk, lostDisk, mountFindings, shownFindings } from "./condition.ts";
import type { Disks } from "./disks.ts";
import type { MountTable } from "./mount-table.ts";
import type { Mounts } from "./mounts.ts";
import type { StageRecord } from "./records.ts";
import { sizeOnly, type Usage, type Usages } from "./usage.ts";
import type { Watching } from "./watching.ts";

/** A volume that is mounted at a real place. `record` is absent for one that csimux did not stage. */
export interface Seen {
  readonly volumeId: string;
  readonly place: string;
  readonly table: MountTable;
  readonly record: StageRecord | undefined;
}

/** What a look at a mounted volume gave. */
export interface Measured {
  /** Empty when the volume does not answer. */
  readonly usage: readonly Usage[];
  /** What is wrong with it. */
  readonly conditions: readonly Condition[];
  /** Why there is no usage. */
  readonly failure: CsiError | undefined;
}

/** Measures mounted volumes, and takes down what is found to be wrong with them by that. */
export class Measuring {
  readonly #mounts: Mounts;
  readonly #disks: Disks;
  readonly #usages: Usages;
  readonly #watching: Watching;

  constructor(mounts: Mounts, disks: Disks, usages: Usages, watching: Watching) {
    this.#mounts = mounts;
    this.#disks = disks;
    this.#usages = usages;
    this.#watching = watching;
  }

  /** Throws what says nothing about the volume. */
  async measure(seen: Seen, call: Call): Promise<Measured> {
    const { place, table, record } = seen;
    const mount = table.top(place);
    try {
      const usage = await this.#usage(seen, call);
      // A server has just answered; a disk may have failed although its file system can still be measured.
      const isDisk = mount && isLocalName(mount.fsType);
      const found = isDisk ? await mountFindings(mount, record, this.#mounts, call.signal) : shownOf(mount, record);
      return { usage, conditions: await this.believed(seen, found, call), failure: undefined };
    } catch (error) {
      if (!(error instanceof CsiError) || call.signal.aborted) throw error;
      const isLost = record !== undefined && (await hasLostDisk(record, this.#disks));
      const finding = isLost ? lostDisk(record) : failureFinding(error, mount);
      if (!finding) throw error;
      const conditions = await this.believed(seen, [...shownOf(mount, record), finding], call);
      return { usage: [], conditions, failure: error };
    }
  }

  /** What is wrong with a mounted volume that csimux did not stage. Throws what says nothing about it. */
  async health({ place, table }: Seen, call: Call): Promise<readonly Condition[]> {
    const mount = table.top(place);
    const found = mount ? await mountFindings(mount, undefined, this.#mounts, call.signal) : [];
    return found.map(each => ({ ...each, ms: 0 }));
  }

  /** What holds after a look; of a volume that csimux did not stage no more is known than what was just found. */
  async believed(
    { volumeId, record }: Pick<Seen, "volumeId" | "record">,
    found: readonly Finding[],
    call: Call,
  ): Promise<readonly Condition[]> {
    if (!record) return found.map(each => ({ ...each, ms: 0 }));
    const ways = found.some(({ reason }) => reason === "DeviceGone") ? [] : await this.#watching.attached(record);
    return this.#watching.see(volumeId, [...found, ...ways], call.log);
  }

  /** A file system goes on answering this from memory when its disk is gone, so the kernel is asked about the disk first. */
  async #usage({ volumeId, place, table, record }: Seen, call: Call): Promise<readonly Usage[]> {
    if (record && (await hasLostDisk(record, this.#disks)))
      throw new CsiError("unavailable", `the disk of volume "${volumeId}" is gone from this node; stage it anew`);
    if (record?.kind === "block") return sizeOnly(await this.#disks.bytes(place));
    return await this.#usages.measure(volumeId, place, table, call.signal);
  }
}

const shownOf = (mount: Mount | undefined, record: StageRecord | undefined): readonly Finding[] =>
  mount ? shownFindings(mount, record) : [];
