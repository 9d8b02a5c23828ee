import type { Mapping } from "../schema/mapping.ts";
import { nearest } from "../schema/nearest.ts";

/** Kubernetes objects that csimux has to do with. */
export type ObjectKind =
  | "secret"
  | "config-map"
  | "sealed-secret"
  | "storage-class"
  | "snapshot-class"
  | "persistent-volume"
  | "csi-driver"
  | "workload"
  | "kustomization"
  | "list";

interface Known {
  readonly kind: ObjectKind;
  readonly apiVersion: string;
}

const storage = "storage.k8s.io/v1";
const snapshots = "snapshot.storage.k8s.io/v1";

/** By the value of `kind:`, with the version of the API that Kubernetes 1.24 and newer has. */
const objects: ReadonlyMap<string, Known> = new Map<string, Known>([
  ["Secret", { kind: "secret", apiVersion: "v1" }],
  ["ConfigMap", { kind: "config-map", apiVersion: "v1" }],
  ["SealedSecret", { kind: "sealed-secret", apiVersion: "bitnami.com/v1alpha1" }],
  ["StorageClass", { kind: "storage-class", apiVersion: storage }],
  ["VolumeSnapshotClass", { kind: "snapshot-class", apiVersion: snapshots }],
  ["PersistentVolume", { kind: "persistent-volume", apiVersion: "v1" }],
  ["CSIDriver", { kind: "csi-driver", apiVersion: storage }],
  ["Deployment", { kind: "workload", apiVersion: "apps/v1" }],
  ["DaemonSet", { kind: "workload", apiVersion: "apps/v1" }],
  ["StatefulSet", { kind: "workload", apiVersion: "apps/v1" }],
  ["Kustomization", { kind: "kustomization", apiVersion: "kustomize.config.k8s.io/v1beta1" }],
  ["List", { kind: "list", apiVersion: "v1" }],
  ["SecretList", { kind: "list", apiVersion: "v1" }],
  ["ConfigMapList", { kind: "list", apiVersion: "v1" }],
  ["PersistentVolumeList", { kind: "list", apiVersion: "v1" }],
  ["StorageClassList", { kind: "list", apiVersion: storage }],
  ["VolumeSnapshotClassList", { kind: "list", apiVersion: snapshots }],
  ["CSIDriverList", { kind: "list", apiVersion: storage }],
  ["DeploymentList", { kind: "list", apiVersion: "apps/v1" }],
  ["DaemonSetList", { kind: "list", apiVersion: "apps/v1" }],
  ["StatefulSetList", { kind: "list", apiVersion: "apps/v1" }],
]);

/** The `kind:` of an object of ours as it should be written: as it is, or where it is nearly one. */
function meantKind(value: Mapping): string | undefined {
  const { kind, apiVersion } = value;
  if (typeof kind !== "string") return undefined;
  if (objects.has(kind)) return kind;
  const near = nearest(kind, objects.keys());
  const group = (version: string): string => version.replace(/[^/]*$/, "");
  // Other APIs have kinds with similar names.
  return near !== undefined && group(String(apiVersion)) === group(objects.get(near)?.apiVersion ?? "")
    ? near
    : undefined;
}

/** What an object is by its `kind:`, even where that is slightly wrong; undefined for those of others. */
export function objectKind(value: Mapping): ObjectKind | undefined {
  const kind = meantKind(value);
  return kind === undefined ? undefined : objects.get(kind)?.kind;
}

/** What a guess for a text that is no YAML goes by. */
export const kindNamed = (kind: string): ObjectKind | undefined => objects.get(kind)?.kind;

/** A wrong head of an object: which key, what is wrong, what to write. */
export interface HeadFault {
  readonly key: "apiVersion" | "kind";
  readonly message: string;
  readonly fix: string;
}

/** Why Kubernetes would not take the object for what it is meant to be, or undefined. */
export function headFault(value: Mapping): HeadFault | undefined {
  const kind = meantKind(value);
  const known = kind === undefined ? undefined : objects.get(kind);
  if (kind === undefined || known === undefined) return undefined;
  if (kind !== value["kind"])
    return { key: "kind", message: "Kubernetes has no such kind", fix: `write "kind: ${kind}"` };
  const { apiVersion } = value;
  if (apiVersion === known.apiVersion) return undefined;
  const message = apiVersion === undefined ? `a ${kind} needs "apiVersion"` : `Kubernetes has no ${kind} in this API`;
  return { key: "apiVersion", message, fix: `write "apiVersion: ${known.apiVersion}"` };
}
