import type { ClusterFacts, VolumeClaim } from "../../lib/config/cluster.ts";
import { groupBy } from "../../lib/core/group-by.ts";
import { parseHandle } from "../../lib/core/handle.ts";
import { claimFinder } from "../../lib/core/place.ts";
import type { StatusAnswer } from "../../lib/observe/status.ts";

/** Volumes and PersistentVolumes of one connection without each other. */
export interface Strays {
  readonly connection: string;
  /** Bound PersistentVolumes whose volume the storage does not have. */
  readonly lost: readonly VolumeClaim[];
  /** Handles of volumes that no PersistentVolume names. */
  readonly orphaned: readonly string[];
}

/**
 * Compares the volumes of connections that were listed completely with the PersistentVolumes, which were listed before them: a volume that
 * was deleted since then is not lost, so only bound ones count.
 */
export function straysOf({ inventory = [] }: StatusAnswer, cluster: ClusterFacts | undefined): readonly Strays[] {
  const { claims } = cluster ?? {};
  if (!claims) return [];
  const claimOf = claimFinder(claims);
  const bound = groupBy(
    claims.filter(({ claim, isOther }) => claim !== undefined && isOther !== true),
    ({ handle }) => parseHandle(handle, "volume")?.connection,
  );
  return inventory.flatMap(({ connection, volumes, problem }) => {
    if (problem !== undefined) return [];
    const present = new Set(volumes.map(({ id }) => id));
    const lost = (bound.get(connection) ?? []).filter(({ handle }) => !present.has(handle));
    const orphaned = volumes.filter(each => !claimOf(each)).map(({ id }) => id);
    return lost.length + orphaned.length > 0 ? [{ connection, lost, orphaned }] : [];
  });
}
