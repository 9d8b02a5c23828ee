import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { MountTable } from "../mount/mount-table.ts";
import { isReadOnly } from "../stage.ts";
import { type PublishedTarget, type StageRecord, stagedAt } from "../state/stage-records.ts";
import type { Disks } from "./disks.ts";

const onlyReads = ({ readonly, mode }: Pick<PublishedTarget, "readonly" | "mode">): boolean =>
  readonly || isReadOnly(mode);

/**
 * Volumes of block access that are only read. A disk takes writes from all who opened it or from none, whatever the mount of its
 * device file says (mount(2), MS_RDONLY is about file systems), so the disk itself refuses them while it is published so.
 */
export class ReadOnlyBlockAccess {
  readonly #disks: Disks;

  constructor(disks: Disks) {
    this.#disks = disks;
  }

  /** Before a volume is published. Throws "failed-precondition" while it is published elsewhere on this node the other way. */
  async begin(staged: StageRecord, entry: PublishedTarget, table: MountTable, call: Call): Promise<void> {
    if (staged.kind !== "block") return;
    const other = this.#others(staged, entry.target, table).find(each => onlyReads(each) !== onlyReads(entry));
    if (other) {
      const [now, then] = onlyReads(entry) ? ["read-only", "writable"] : ["writable", "read-only"];
      throw new CsiError(
        "failed-precondition",
        `volume "${staged.volumeId}" cannot be ${now} at ${entry.target}: it is ${then} at ${other.target}, and a disk is one or the other`,
      );
    }
    if (onlyReads(entry)) await this.#disks.protect(stagedAt(staged), true, call);
  }

  /** After a target was unmounted: the last one that only read leaves a disk that takes writes again. */
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
