import { type ClusterFacts, claimsOf } from "../config/cluster.ts";
import { CsiError } from "../core/errors.ts";
import { isMapping } from "../core/mapping.ts";
import type { ClusterAccess } from "../io/kube.ts";

/** Asks the cluster's API for its nodes and for the PersistentVolumes of a driver, with the rights of the pod. Never throws. */
export async function clusterFacts(
  driver: string,
  access: Omit<ClusterAccess, "folder">,
  folder?: string,
): Promise<ClusterFacts> {
  const { listObjects, serviceAccountFolder } = await import("../io/kube.ts");
  const problems: string[] = [];
  const list = (collection: string, metadataOnly: boolean) =>
    listObjects(collection, metadataOnly, { ...access, folder: folder ?? serviceAccountFolder }).catch(
      (error: unknown) => {
        problems.push(error instanceof CsiError ? error.message : "the cluster's API cannot be used");
        return undefined;
      },
    );
  const [nodes, volumes] = await Promise.all([list("/api/v1/nodes", true), list("/api/v1/persistentvolumes", false)]);
  return { nodes: nodes?.flatMap(each => nodeOf(each) ?? []), claims: volumes && claimsOf(volumes, driver), problems };
}

function nodeOf(object: unknown) {
  const { name, labels } = isMapping(object) && isMapping(object["metadata"]) ? object["metadata"] : {};
  if (typeof name !== "string") return undefined;
  const texts = Object.entries(isMapping(labels) ? labels : {}).map(([key, value]) => [key, String(value)]);
  return { name, labels: Object.fromEntries(texts) as Readonly<Record<string, string>> };
}
