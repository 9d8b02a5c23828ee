import { type Path, problem, type SchemaFinding } from "../schema/finding.ts";
import { isMapping, type Mapping } from "../schema/mapping.ts";
import { parseYaml, type Source } from "../yaml/parse.ts";
import { explained } from "./explain.ts";
import { nameOf } from "./file-name.ts";
import { type DocumentKind, helmBelow, isConfiguration, kindOf, kindOfText } from "./kinds.ts";
import {
  type ClassObject,
  type HelmValues,
  listAt,
  type ManifestObject,
  mappingAt,
  textAt,
  type VolumeObject,
} from "./lint-input.ts";
import { type HeadFault, headFault } from "./object-kinds.ts";
import type { UnreadDocument } from "./read.ts";
import { secretEntries } from "./secret-entries.ts";
import { type SecretFile, secretFiles, textFiles } from "./secret-files.ts";
import { type DocumentDiagnostic, type DocumentFinding, type SourceDocument, secretByName } from "./source-document.ts";
import type { Store } from "./unseen.ts";

/** What was found in the inputs so far. */
export interface FoundObjects {
  readonly candidates: UnreadDocument[];
  readonly classes: ClassObject[];
  readonly helm: HelmValues[];
  readonly volumes: VolumeObject[];
  readonly drivers: ManifestObject[];
  readonly workloads: ManifestObject[];
  /** Names of connections whose files nobody can read here. */
  readonly sealed: string[];
  /** Files that sops has encrypted. */
  readonly encrypted: string[];
  /** Secrets and ConfigMaps, whatever they hold. */
  readonly stores: Store[];
  readonly kustomizations: ManifestObject[];
  readonly reported: DocumentFinding[];
  readonly placed: DocumentDiagnostic[];
  /** Inputs that hold something of ours. */
  documents: number;
}

/** Takes what is of use from a Kubernetes object or Helm values, at `path` of a document. */
export function addObject(
  leaf: SourceDocument,
  kind: DocumentKind,
  value: Mapping,
  path: Path,
  found: FoundObjects,
): void {
  if (kind === "list") {
    for (const [index, item] of listAt(value, "items").entries()) {
      if (isMapping(item)) addObject(leaf, kindOf(item), item, [...path, "items", index], found);
    }
  }
  if (kind === "secret" || kind === "config-map")
    found.stores.push({
      kind: kind === "secret" ? "Secret" : "ConfigMap",
      name: textAt(value, "metadata", "name") ?? "",
    });
  if (kind === "secret") addSecret(leaf, value, path, found);
  if (kind === "config-map")
    addFiles(leaf, value, textFiles(leaf.source, leaf.text, value, [...path, "data"]), path, found);
  if (kind === "sealed-secret") addSealed(value, found);
  if (kind === "persistent-volume") found.volumes.push({ leaf, path, value });
  if (kind === "csi-driver") found.drivers.push({ leaf, path, value });
  if (kind === "kustomization") found.kustomizations.push({ leaf, path, value });
  if (kind === "workload") found.workloads.push({ leaf, path, value });
  if (kind === "storage-class" || kind === "snapshot-class") found.classes.push(classObject(leaf, kind, value, path));
  if (kind === "helm") addHelm(leaf, value, found);
}

function classObject(
  leaf: SourceDocument,
  kind: "storage-class" | "snapshot-class",
  value: Mapping,
  path: Path,
): ClassObject {
  const storage = kind === "storage-class";
  return {
    leaf,
    kind: storage ? "storage" : "snapshot",
    path,
    value,
    provisioner: textAt(value, storage ? "provisioner" : "driver"),
    ours: false,
  };
}

/** Every class in the values is of this driver. A main file among the values is checked where it stands. */
function addHelm(outer: SourceDocument, whole: Mapping, found: FoundObjects): void {
  const key = helmBelow(whole);
  const value = key === undefined ? whole : mappingAt(whole, key);
  const leaf = key === undefined ? outer : below(outer, [key], value);
  found.helm.push({ leaf, value });
  const provisioner = textAt(value, "csiDriver", "name");
  for (const [key, kind] of [
    ["storageClasses", "storage"],
    ["volumeSnapshotClasses", "snapshot"],
  ] as const) {
    for (const [index, item] of listAt(value, key).entries()) {
      if (isMapping(item)) found.classes.push({ leaf, kind, path: [key, index], value: item, provisioner, ours: true });
    }
  }
  const config = mappingAt(value, "driver", "config");
  // The chart wants the name of the driver even where the rest stands in a Secret.
  if (typeof config["driver"] !== "string" || Object.keys(config).length === 1) return;
  found.candidates.push({ leaf: below(leaf, ["driver", "config"], config), name: "proxy", role: "main" });
}

/** A part of a document as one of its own. */
function below(leaf: SourceDocument, path: Path, value: Mapping): SourceDocument {
  const source: Source = {
    ...leaf.source,
    value,
    position: (inner, what) => leaf.source.position([...path, ...inner], what),
  };
  return { ...leaf, source, above: [...(leaf.above ?? []), ...path], isSecret: secretByName };
}

/** Of a SealedSecret only the names can be known. */
function addSealed(value: Mapping, found: FoundObjects): void {
  const names = Object.keys(mappingAt(value, "spec", "encryptedData")).filter(name => /\.ya?ml$/.test(name));
  found.sealed.push(...names.map(nameOf));
  if (names.length > 0) found.documents++;
}

function addSecret(leaf: SourceDocument, secret: Mapping, path: Path, found: FoundObjects): void {
  addFiles(leaf, secret, secretFiles(leaf.source, leaf.text, secret, path), path, found);
  // What stands in a Secret is nobody's to read; base64 hides nothing.
  const hiding = { ...leaf, isSecret: () => true };
  for (const finding of secretEntries(secret, path)) {
    found.documents++;
    found.reported.push({ leaf: hiding, finding });
  }
}

/** Takes the files that a Secret or ConfigMap holds. */
function addFiles(
  leaf: SourceDocument,
  value: Mapping,
  all: readonly SecretFile[],
  path: Path,
  found: FoundObjects,
): void {
  const files = all.map(file => {
    const source = explained(parseYaml(leaf.file, file.text), file.text);
    const kind = source.diagnostics.some(each => each.blocks) ? kindOfText(file.text) : kindOf(source.value);
    return { ...file, source, kind };
  });
  // What stands beside connections is read as one, whatever it says.
  const folder = files.some(({ kind }) => kind === "connection");
  for (const { name, text, start, outward, source, kind } of files) {
    if (!isConfiguration(kind)) continue;
    const inner: SourceDocument = {
      file: leaf.file,
      text,
      source,
      inside: name,
      outward,
      start,
      isSecret: secretByName,
    };
    found.candidates.push({ leaf: inner, name: nameOf(name), role: folder ? "connection" : kind });
  }
  const fault = files.some(({ kind }) => isConfiguration(kind)) ? headFault(value) : undefined;
  if (fault) found.reported.push({ leaf: { ...leaf, isSecret: () => true }, finding: headFinding(fault, path) });
}

/** The finding about an object's `apiVersion` or `kind`. */
export const headFinding = ({ key, message, fix }: HeadFault, path: Path): SchemaFinding =>
  problem("kubernetes-object", [...path, key], message, fix);
