import type { Finding } from "./finding.ts";
import type { Reason } from "./reasons.ts";

/** Reasons of a volume for which its storage, or the way to it, is to be blamed; and those for which nothing gets through. */
const ofStorage: ReadonlySet<Reason> = new Set<Reason>([
  ...(["StaleHandle", "NotAnswering", "FileSystemFailed", "PathsLost", "SessionDown", "DeviceGone"] as const),
]);
const unreachable: ReadonlySet<Reason> = new Set<Reason>(["NotAnswering", "SessionDown"]);

/** What a node sees of a storage. */
export interface StorageView {
  readonly name: string;
  /** What is wrong with each of its volumes on this node; empty where it has none. */
  readonly volumes: readonly (readonly Finding[])[];
  /** Whether its server can be reached; undefined where nobody asked, or could. */
  readonly answers: boolean | undefined;
}

/**
 * What is wrong with a storage as a node sees it (CSI NodeGetStorageHealth). Its volumes on the node decide; a server is asked only
 * where there are none.
 */
export function storageFindings({ name, volumes, answers }: StorageView): readonly Finding[] {
  const has = (reasons: ReadonlySet<Reason>) => volumes.filter(each => each.some(({ reason }) => reasons.has(reason)));
  const troubled = has(ofStorage).length;
  const silent = has(unreachable).length;
  if (volumes.length > 0 && silent === volumes.length)
    return [
      { reason: "StorageUnreachable", message: `none of the ${silent} volume(s) of ${name} on this node answers` },
    ];
  if (troubled > 0)
    return [
      {
        reason: "StorageDegraded",
        message: `${troubled} of ${volumes.length} volume(s) of ${name} on this node cannot be used well`,
      },
    ];
  if (volumes.length === 0 && answers === false)
    return [{ reason: "StorageUnreachable", message: `${name} cannot be reached from this node` }];
  return [];
}
