import { encodeHandle, idBytes } from "../core/handle.ts";
import { listAt, mappingAt, textAt } from "../lint/world.ts";
import { isMapping, type Mapping } from "../schema/mapping.ts";
import { manifestBudget } from "../yaml/budget.ts";
import { parseYaml } from "../yaml/parse.ts";
import type { Manifest } from "./classes.ts";

/** A PersistentVolume under the new driver's name. */
export interface MovedVolume {
  readonly name: string;
  /** The claim as <namespace>/<name>; undefined for a volume that has none. */
  readonly claim: string | undefined;
  /** What becomes of the volume with its claim now. */
  readonly policy: string;
  readonly manifest: Manifest;
}

/** What became of a cluster's PersistentVolumes. */
export interface MovedVolumes {
  readonly moved: readonly MovedVolume[];
  /** Those of the old drivers that stay as they are, and why. */
  readonly refused: readonly string[];
  /** How many belong to other drivers. */
  readonly others: number;
}

/** Reads what "kubectl get pv -o json" printed. Throws nothing; undefined for what is no list of PersistentVolumes. */
export function readVolumes(file: string, text: string): readonly Mapping[] | undefined {
  const { value } = parseYaml(file, text, manifestBudget);
  if (!isMapping(value)) return undefined;
  const all = value["kind"] === "PersistentVolume" ? [value] : listAt(value, "items").filter(isMapping);
  const volumes = all.filter(each => each["kind"] === "PersistentVolume");
  return volumes.length === 0 && value["kind"] !== "List" && value["kind"] !== "PersistentVolumeList"
    ? undefined
    : volumes;
}

/** The volumes of old drivers as the driver `driver` has them: the handle says the connection, the claim stays, and nothing is deleted with it. */
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
      if (typeof result === "string") refused.push(`${textAt(volume, "metadata", "name")}: ${result}`);
      else moved.push(result);
    }
  }
  return { moved, refused, others };
}

function moveVolume(volume: Mapping, connection: string, driver: string): MovedVolume | string {
  const spec = mappingAt(volume, "spec");
  const csi = mappingAt(spec, "csi");
  const id = textAt(csi, "volumeHandle") ?? "";
  if (id === "" || /^[vs]:/.test(id)) return `its handle "${id}" is none of an old driver`;
  if (Buffer.byteLength(id) > idBytes(connection))
    return "its handle is too long to be named together with its connection; it stays under the old name";
  if (textAt(volume, "metadata", "deletionTimestamp") !== undefined) return "it is being deleted";
  const volumeHandle = encodeHandle({ kind: "volume", connection, id });
  const claim = mappingAt(spec, "claimRef");
  const { resourceVersion: _, ...claimRef } = claim;
  const name = textAt(volume, "metadata", "name") ?? "";
  return {
    name,
    claim: claim["name"] === undefined ? undefined : `${claim["namespace"]}/${claim["name"]}`,
    policy: textAt(spec, "persistentVolumeReclaimPolicy") ?? "",
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

/** csi-provisioner deletes only what it has made itself, by this annotation. */
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

/** The text of one volume's file: what to do in which order, then the volume. */
export const movingSteps = ({ name, claim, policy }: MovedVolume): readonly string[] => [
  `Volume ${name}${claim === undefined ? "" : ` of claim ${claim}`}. One after the other; stop where one fails.`,
  claim === undefined
    ? "1. Nothing uses it: it has no claim."
    : `1. End every pod that uses the claim ${claim}, and wait until "kubectl get volumeattachments" does not show ${name} any more.`,
  `2. kubectl patch pv ${name} -p '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`,
  `   and look: "kubectl get pv ${name}" must say Retain. Otherwise the next step can delete the data${policy === "Retain" ? " (it said so already)" : ` (it said ${policy} before)`}.`,
  `3. kubectl delete pv ${name} --wait=false`,
  `   kubectl patch pv ${name} --type=merge -p '{"metadata":{"finalizers":null}}'`,
  `4. kubectl create -f this file${claim === undefined ? "" : "; the claim, Lost in between, is Bound again"}`,
  "5. Start the pods again.",
  ...(policy === "Retain"
    ? []
    : [`6. When all is well: kubectl patch pv ${name} -p '{"spec":{"persistentVolumeReclaimPolicy":"${policy}"}}'`]),
];
