import type { ReadConnection } from "../config/connection.ts";
import type { ReadProxy } from "../config/proxy.ts";
import type { DriverModule } from "../drivers/module.ts";
import type { Path } from "../schema/finding.ts";
import { isMapping, type Mapping } from "../schema/mapping.ts";
import type { PatternCompiler } from "../topology/pattern.ts";
import type { DocumentFinding, SourceDocument } from "./source-document.ts";

/** The main file, as given. */
export interface MainFile {
  readonly leaf: SourceDocument;
  readonly read: ReadProxy;
  /** The `proxy:` block as written. */
  readonly proxy: Mapping;
}

/** One connection file. */
export interface ConnectionFile {
  readonly leaf: SourceDocument;
  readonly name: string;
  readonly read: ReadConnection;
  /** The value of `driver:`, "" when there is none. */
  readonly driver: string;
}

/** A StorageClass, a VolumeSnapshotClass, or a class in Helm values. */
export interface ClassObject {
  readonly leaf: SourceDocument;
  readonly kind: "storage" | "snapshot";
  /** Where the object stands in its document. */
  readonly path: Path;
  readonly value: Mapping;
  /** `provisioner` or `driver`. */
  readonly provisioner: string | undefined;
  /** Whether it is a class of this driver for certain. */
  readonly ours: boolean;
}

/** A PersistentVolume. */
export interface VolumeObject {
  readonly leaf: SourceDocument;
  /** Where the object stands in its document. */
  readonly path: Path;
  readonly value: Mapping;
}

/** A CSIDriver, a Deployment, DaemonSet or StatefulSet, of csimux or of anybody else, or a kustomization. */
export interface ManifestObject {
  readonly leaf: SourceDocument;
  /** Where the object stands in its document. */
  readonly path: Path;
  readonly value: Mapping;
}

/** Values of the Helm chart. */
export interface HelmValues {
  readonly leaf: SourceDocument;
  readonly value: Mapping;
}

/** Everything that was given, read. */
export interface LintInput {
  readonly main: MainFile | undefined;
  readonly connections: readonly ConnectionFile[];
  readonly classes: readonly ClassObject[];
  readonly helm: readonly HelmValues[];
  readonly volumes: readonly VolumeObject[];
  readonly drivers: readonly ManifestObject[];
  readonly workloads: readonly ManifestObject[];
  /** Connections that exist, but whose files cannot be read here. */
  readonly sealed: readonly string[];
  /** Files that sops has encrypted. */
  readonly encrypted: readonly string[];
  /** Secrets and ConfigMaps, whatever they hold. */
  readonly stores: readonly { readonly kind: "Secret" | "ConfigMap"; readonly name: string }[];
  /** Files kustomization.yaml. */
  readonly kustomizations: readonly ManifestObject[];
  readonly modules: readonly DriverModule[];
  /** Compiles patterns of topology rules. */
  readonly compile: PatternCompiler;
}

/** A rule that looks at more than one key. */
export type Check = (world: LintInput) => Iterable<DocumentFinding>;

/** The value at a path, undefined where there is none. */
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

/** The mapping at a path, empty where there is none. */
export const mappingAt = (value: unknown, ...path: readonly (string | number)[]): Mapping => {
  const found = at(value, ...path);
  return isMapping(found) ? found : {};
};

/** The list at a path, empty where there is none. */
export const listAt = (value: unknown, ...path: readonly (string | number)[]): readonly unknown[] => {
  const found = at(value, ...path);
  return Array.isArray(found) ? found : [];
};
