import type { Finding } from "./finding.ts";
import type { Reason } from "./reasons.ts";

/**
 * Reasons of a volume caused by its storage system or the path to it; `unreachable`: those that mean no answer at all.
 */
const ofStorage: ReadonlySet<Reason> = new Set<Reason>([
  ...(["StaleHandle", "NotAnswering", "FileSystemFailed", "PathsLost", "SessionDown", "DeviceGone"] as const),
]);
const unreachable: ReadonlySet<Reason> = new Set<Reason>(["NotAnswering", "SessionDown"]);

/** A storage system as seen from a node. */
export interface StorageObservation {
  readonly name: string;
  /** The findings of each of its volumes on this node; empty if it has none. */
  readonly volumes: readonly (readonly Finding[])[];
  /** Whether its server can be reached; undefined if not checked. */
  readonly answers: boolean | undefined;
}

/**
 * The condition of a storage system as seen from a node (CSI NodeGetStorageHealth), according to its volumes on the
 * node; the server itself is checked only if there are none.
 */
export function storageFindings({ name, volumes, answers }: StorageObservation): readonly Finding[] {
  const has = (reasons: ReadonlySet<Reason>) => volumes.filter(each => each.some(({ reason }) => reasons.has(reason)));
  const troubled = has(ofStorage).length;
  const silent = has(unreachable).length;
  if (volumes.length > 0 && silent === volumes.length)
    return [
      { reason: "StorageUnreachable", message: `none of the ${silent} volume(s) of ${name} on this node responds` },
    ];
  if (troubled > 0)
    return [
      {
        reason: "StorageDegraded",
        message: `${troubled} of ${volumes.length} volume(s) of ${name} on this node have problems`,
      },
    ];
  if (volumes.length === 0 && answers === false)
    return [{ reason: "StorageUnreachable", message: `${name} cannot be reached from this node` }];
  return [];
}
