import type { ReadConnection } from "../config/connection.ts";
import type { ReadProxy } from "../config/proxy.ts";
import { isMapping, type Mapping } from "../core/mapping.ts";
import type { DriverModule } from "../drivers/module.ts";
import type { Path } from "../schema/finding.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import type { SourceDocument } from "./document.ts";

/** The main file. */
export interface MainDocument {
  readonly document: SourceDocument;
  readonly read: ReadProxy;
  /** The unchecked `proxy:` block. */
  readonly proxy: Mapping;
}

/** One connection file. */
export interface ConnectionFile {
  readonly document: SourceDocument;
  readonly name: string;
  readonly read: ReadConnection;
  /** The value of `driver:`; "" if there is none. */
  readonly driver: string;
}

/** An object of Kubernetes or kustomize, or Helm values. */
export interface ManifestObject {
  readonly document: SourceDocument;
  /** The path of the object in its document. */
  readonly path: Path;
  readonly value: Mapping;
}

/** A StorageClass, a VolumeSnapshotClass, or a class in Helm values. */
export interface ClassObject extends ManifestObject {
  readonly kind: "storage" | "snapshot";
  /** The value of `provisioner` or `driver`. */
  readonly provisioner: string | undefined;
  /** Whether it is in Helm values, which only have classes of this driver. */
  readonly inHelm: boolean;
  /** Whether the chart makes text of its parameters, as democratic-csi's does. */
  readonly quoted?: true;
}

/** A Secret or ConfigMap. */
export interface StoreObject {
  readonly document: SourceDocument;
  readonly kind: "Secret" | "ConfigMap";
  readonly name: string;
}

/** The objects found in the files of one deployment. */
export interface Objects {
  readonly classes: readonly ClassObject[];
  readonly helm: readonly ManifestObject[];
  /** PersistentVolumes. */
  readonly volumes: readonly ManifestObject[];
  /** CSIDrivers, of csimux and of others. */
  readonly drivers: readonly ManifestObject[];
  /** Deployments, DaemonSets and StatefulSets, of csimux and of others. */
  readonly workloads: readonly ManifestObject[];
  /** Files kustomization.yaml. */
  readonly kustomizations: readonly ManifestObject[];
  /** Objects of Flux, Argo CD and k3s that install a chart of csimux or democratic-csi; `value` is the object. */
  readonly releases: readonly ManifestObject[];
  readonly stores: readonly StoreObject[];
  /** Names of connections with encrypted files. */
  readonly sealed: readonly string[];
  /** Files encrypted by sops. */
  readonly encrypted: readonly string[];
}

/** All files of one deployment, read. */
export interface LintInput extends Objects {
  readonly main: MainDocument | undefined;
  readonly connections: readonly ConnectionFile[];
  readonly modules: readonly DriverModule[];
  /** The variables and files of this machine; only rules with `online: true` may read them. */
  readonly resolver: ValueResolver;
}

/** The value at a path; undefined if there is none. */
export function at(value: unknown, ...path: readonly (string | number)[]): unknown {
  let here = value;
  for (const step of path) {
    if (Array.isArray(here)) here = here[Number(step)];
    else if (isMapping(here) && Object.hasOwn(here, step)) here = here[step];
    else return undefined;
  }
  return here;
}

/** The text or number at a path, as text. */
export const textAt = (value: unknown, ...path: readonly (string | number)[]): string | undefined => {
  const found = at(value, ...path);
  return typeof found === "string" || typeof found === "number" ? String(found) : undefined;
};

/** A value as text. The conversion of JavaScript itself fails for a mapping with a key "toString". */
export const textOf = (value: unknown): string =>
  typeof value === "object" && value !== null ? Object.prototype.toString.call(value) : String(value);

/** The mapping at a path; empty if there is none. */
export const mappingAt = (value: unknown, ...path: readonly (string | number)[]): Mapping => {
  const found = at(value, ...path);
  return isMapping(found) ? found : {};
};

/** The list at a path; empty if there is none. */
export const listAt = (value: unknown, ...path: readonly (string | number)[]): readonly unknown[] => {
  const found = at(value, ...path);
  return Array.isArray(found) ? found : [];
};
