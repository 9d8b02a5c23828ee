import { encodeHandle, idBytes } from "../core/handle.ts";
import { isMapping, type Mapping } from "../core/mapping.ts";
import { isNodeName } from "../core/name.ts";
import { visible } from "../core/visible.ts";
import { listAt, mappingAt, textAt } from "../lint/lint-input.ts";
import { manifestBudget } from "../yaml/budget.ts";
import { parseYaml } from "../yaml/parse.ts";
import type { Manifest } from "./classes.ts";

/** A PersistentVolume under the new driver's name. */
export interface MovedVolume {
  readonly name: string;
  /** The claim as <namespace>/<name>; undefined if the volume has none. */
  readonly claim: string | undefined;
  /** The present reclaim policy. */
  readonly policy: string;
  readonly manifest: Manifest;
}

/** The PersistentVolumes of a cluster, sorted by whether they can be moved. */
export interface MovedVolumes {
  readonly moved: readonly MovedVolume[];
  /** The volumes of old drivers that stay unchanged, and why. */
  readonly refused: readonly string[];
  /** The number of volumes of other drivers. */
  readonly others: number;
}

/** Reads the output of "kubectl get pv -o json". Never throws; undefined if it is not a list of PersistentVolumes. */
export function readVolumes(file: string, text: string): readonly Mapping[] | undefined {
  const { value } = parseYaml(file, text, manifestBudget);
  if (!isMapping(value)) return undefined;
  const all = value["kind"] === "PersistentVolume" ? [value] : listAt(value, "items").filter(isMapping);
  const volumes = all.filter(each => each["kind"] === "PersistentVolume");
  return volumes.length === 0 && value["kind"] !== "List" && value["kind"] !== "PersistentVolumeList"
    ? undefined
    : volumes;
}

/**
 * The volumes of old drivers as volumes of `driver`: the handle names the connection, the claim stays, and the policy
 * is Retain.
 */
export function movedVolumes(
  volumes: readonly Mapping[],
  connections: ReadonlyMap<string, string>,
  driver: string,
): MovedVolumes {
  const moved: MovedVolume[] = [];
  const refused: string[] = [];
  let others = 0;
  for (const volume of volumes) {
    const connection = connections.get(textAt(volume, "spec", "csi", "driver") ?? "");
    if (connection === undefined) others++;
    else {
      const result = moveVolume(volume, connection, driver);
      if (typeof result === "string") refused.push(visible(`${textAt(volume, "metadata", "name")}: ${result}`));
      else moved.push(result);
    }
  }
  return { moved, refused, others };
}

function moveVolume(volume: Mapping, connection: string, driver: string): MovedVolume | string {
  const spec = mappingAt(volume, "spec");
  const csi = mappingAt(spec, "csi");
  const id = textAt(csi, "volumeHandle") ?? "";
  if (id === "" || /^[vs]:/.test(id)) return `its handle "${id}" is not one of an old driver`;
  if (Buffer.byteLength(id) > idBytes(connection))
    return "its handle is too long to be combined with the name of its connection; it stays under the old name";
  if (textAt(volume, "metadata", "deletionTimestamp") !== undefined) return "it is being deleted";
  const volumeHandle = encodeHandle({ kind: "volume", connection, id });
  const claim = mappingAt(spec, "claimRef");
  const { resourceVersion: _, ...claimRef } = claim;
  const name = textAt(volume, "metadata", "name") ?? "";
  // It becomes the name of a file and a word of commands.
  if (!isNodeName(name)) return "Kubernetes has no objects of this name";
  const policy = textAt(spec, "persistentVolumeReclaimPolicy") ?? "";
  if (!/^\w*$/.test(policy)) return "Kubernetes has no such persistentVolumeReclaimPolicy";
  return {
    name,
    claim: claim["name"] === undefined ? undefined : `${claim["namespace"]}/${claim["name"]}`,
    policy,
    manifest: {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: metadataOf(volume, name, driver),
      spec: {
        ...spec,
        persistentVolumeReclaimPolicy: "Retain",
        ...(claim["name"] !== undefined && { claimRef }),
        csi: { ...csi, driver, volumeHandle },
      },
    },
  };
}

/** csi-provisioner deletes only volumes that it has created, identified by this annotation. */
const provisionedBy = "pv.kubernetes.io/provisioned-by";

function metadataOf(volume: Mapping, name: string, driver: string): Manifest {
  const {
    [provisionedBy]: made,
    "kubectl.kubernetes.io/last-applied-configuration": _,
    ...rest
  } = mappingAt(volume, "metadata", "annotations");
  const annotations = { ...rest, ...(made !== undefined && { [provisionedBy]: driver }) };
  const labels = mappingAt(volume, "metadata", "labels");
  return {
    name,
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(Object.keys(annotations).length > 0 && { annotations }),
  };
}

/** The comments in one volume's file: the steps in their order. */
export const movingSteps = ({ name, claim, policy }: MovedVolume): readonly string[] => [
  `Volume ${name}${claim === undefined ? "" : ` of claim ${claim}`}. Perform the steps in this order; stop if one fails.`,
  claim === undefined
    ? "1. Nothing to stop: the volume has no claim."
    : `1. Delete every pod that uses the claim ${claim}, and wait until "kubectl get volumeattachments" no longer shows ${name}.`,
  `2. kubectl patch pv ${name} -p '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`,
  `   and check: "kubectl get pv ${name}" must show Retain. Otherwise the next step can delete the data${policy === "Retain" ? " (the policy was already Retain)" : ` (the policy was ${policy})`}.`,
  `3. kubectl delete pv ${name} --wait=false`,
  `   kubectl patch pv ${name} --type=merge -p '{"metadata":{"finalizers":null}}'`,
  `4. kubectl create -f this file${claim === undefined ? "" : "; the claim, Lost in the meantime, becomes Bound again"}`,
  "5. Start the pods again.",
  ...(policy === "Retain"
    ? []
    : [`6. Once the pods run: kubectl patch pv ${name} -p '{"spec":{"persistentVolumeReclaimPolicy":"${policy}"}}'`]),
];
