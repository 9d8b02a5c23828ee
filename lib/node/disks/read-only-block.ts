import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { MountTable } from "../mount/mount-table.ts";
import { isReadOnly } from "../stage.ts";
import { type PublishedTarget, type StageRecord, stagedAt } from "../state/stage-records.ts";
import type { Disks } from "./disks.ts";

const onlyReads = ({ readonly, mode }: Pick<PublishedTarget, "readonly" | "mode">): boolean =>
  readonly || isReadOnly(mode);

/**
 * Makes disks of read-only block volumes refuse writes while they are published. A disk accepts writes either from
 * every opener or from none, whatever the mount of its device file says (MS_RDONLY of mount(2) affects file systems
 * only).
 */
export class ReadOnlyBlockAccess {
  readonly #disks: Disks;

  constructor(disks: Disks) {
    this.#disks = disks;
  }

  /**
   * Called before publishing. Throws "failed-precondition" while the volume is published on this node in the other
   * mode.
   */
  async begin(staged: StageRecord, entry: PublishedTarget, table: MountTable, call: Call): Promise<void> {
    if (staged.kind !== "block") return;
    const other = this.#others(staged, entry.target, table).find(each => onlyReads(each) !== onlyReads(entry));
    if (other) {
      const [now, then] = onlyReads(entry) ? ["read-only", "writable"] : ["writable", "read-only"];
      throw new CsiError(
        "failed-precondition",
        `volume "${staged.volumeId}" cannot be ${now} at ${entry.target}: it is ${then} at ${other.target}, and a disk cannot be both`,
      );
    }
    if (onlyReads(entry)) await this.#disks.protect(stagedAt(staged), true, call);
  }

  /** Called after a target path is unmounted; makes the disk writable after the last read-only one. */
  async end(staged: StageRecord, target: string, table: MountTable, call: Call): Promise<void> {
    const entry = staged.published.find(each => each.target === target);
    if (staged.kind !== "block" || !entry || !onlyReads(entry)) return;
    if (table.layers(stagedAt(staged)) === 0 || this.#others(staged, target, table).length > 0) return;
    await this.#disks.protect(stagedAt(staged), false, call);
  }

  #others(staged: StageRecord, target: string, table: MountTable): readonly PublishedTarget[] {
    return staged.published.filter(each => each.target !== target && table.layers(each.target) > 0);
  }
}
