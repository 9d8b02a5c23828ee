import type { Semaphores } from "../core/semaphore.ts";
import type { Attachers } from "./attach/attachers.ts";
import type { Disks } from "./disks/disk-filesystems.ts";
import type { Mounts } from "./mount/mounts.ts";
import type { MountOwnership } from "./state/ownership.ts";
import type { StageRecords } from "./state/stage-records.ts";

/** What the operations on the volumes of a node share. */
export interface NodeParts {
  readonly attachers: Attachers;
  readonly disks: Disks;
  readonly mounts: Mounts;
  readonly records: StageRecords;
  readonly ownership: MountOwnership;
  /** Locks of what several volumes share, such as a target. */
  readonly targets: Semaphores;
  /** Whether pods see only mounts that are shared with other mount namespaces: csimux itself is in a pod. */
  readonly isApart?: boolean;
}
