// lib/takeover: from deployments of democratic-csi to one csimux. old.ts reads an old deployment, connections.ts and
// classes.ts convert it, volumes.ts its PersistentVolumes, manifests.ts writes the new one, left.ts lists what is left
// to do.

import { isMapping, type Mapping } from "../core/mapping.ts";
import { at, listAt, mappingAt, textAt } from "../lint/lint-input.ts";
import { cut, fullName, type OldDeployment, type Release } from "./old.ts";

/** A Kubernetes object. */
export type Manifest = Readonly<Record<string, unknown>>;

/** The class objects that the chart created for a release. */
export interface OldClasses {
  /** StorageClasses and VolumeSnapshotClasses. */
  readonly classes: readonly Manifest[];
  /** The Secrets that they reference; volumes reference them, too. */
  readonly secrets: readonly Manifest[];
}

/** Whether the names of the classes' Secrets contain the release's name. */
export const needsRelease = ({ values }: OldDeployment): boolean =>
  [...listAt(values, "storageClasses"), ...listAt(values, "volumeSnapshotClasses")].some(
    each => Object.keys(mappingAt(each, "secrets")).length > 0,
  );

/**
 * The same objects as the chart's, with the same names (templates/storage-classes.yaml, snapshot-classes.yaml), without
 * its labels.
 */
export function oldClasses(old: OldDeployment): OldClasses {
  const storage = listAt(old.values, "storageClasses").filter(isMapping);
  const snapshot = listAt(old.values, "volumeSnapshotClasses").filter(isMapping);
  return {
    classes: [...storage.map(each => storageClass(each, old)), ...snapshot.map(each => snapshotClass(each, old))],
    secrets: [...storage, ...snapshot].flatMap(each => secretsOf(each, old)),
  };
}

function storageClass(each: Mapping, old: OldDeployment): Manifest {
  const annotations = {
    ...mappingAt(each, "annotations"),
    ...(each["defaultClass"] === true && { "storageclass.kubernetes.io/is-default-class": "true" }),
  };
  const { reclaimPolicy, allowVolumeExpansion, volumeBindingMode, allowedTopologies, mountOptions } = each;
  return {
    apiVersion: "storage.k8s.io/v1",
    kind: "StorageClass",
    metadata: metadata(each, annotations),
    provisioner: old.name,
    ...present({ reclaimPolicy, allowVolumeExpansion, volumeBindingMode, allowedTopologies }),
    parameters: { ...texts(mappingAt(each, "parameters")), ...secretParameters(each, old) },
    ...(listAt(each, "mountOptions").length > 0 && { mountOptions }),
  };
}

const snapshotClass = (each: Mapping, old: OldDeployment): Manifest => ({
  apiVersion: "snapshot.storage.k8s.io/v1",
  kind: "VolumeSnapshotClass",
  metadata: metadata(each, mappingAt(each, "annotations")),
  driver: old.name,
  deletionPolicy: textAt(each, "deletionPolicy") || "Delete",
  parameters: { ...texts(mappingAt(each, "parameters")), ...secretParameters(each, old) },
});

const metadata = (each: Mapping, annotations: Mapping): Manifest => ({
  name: textAt(each, "name") ?? "",
  ...(Object.keys(annotations).length > 0 && { annotations }),
  ...(isMapping(each["labels"]) && { labels: each["labels"] }),
});

const present = (fields: Mapping): Mapping =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));

/** Kubernetes requires text where YAML may have parsed a number; the chart adds quotes. */
const texts = (values: Mapping): Mapping =>
  Object.fromEntries(Object.entries(values).map(([key, value]) => [key, value === null ? "" : String(value)]));

/**
 * The chart creates a Secret for each name below `secrets:`, even an empty one, and the class references all of them.
 */
const secretName = (kind: string, each: Mapping, { values }: OldDeployment, release: Release): string =>
  cut(`${kind}-${textAt(each, "name")}-${fullName(values, release)}`);

function secretParameters(each: Mapping, old: OldDeployment): Mapping {
  const { release } = old;
  if (!release) return {};
  const pairs = Object.keys(mappingAt(each, "secrets")).flatMap(kind => [
    [`csi.storage.k8s.io/${kind}-name`, secretName(kind, each, old, release)],
    [`csi.storage.k8s.io/${kind}-namespace`, release.namespace],
  ]);
  return Object.fromEntries(pairs);
}

function secretsOf(each: Mapping, old: OldDeployment): readonly Manifest[] {
  const { release } = old;
  if (!release) return [];
  return Object.keys(mappingAt(each, "secrets")).map(kind => ({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: secretName(kind, each, old, release), namespace: release.namespace },
    type: "Opaque",
    stringData: texts(mappingAt(at(each, "secrets"), kind)),
  }));
}
