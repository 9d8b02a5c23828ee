import { isMapping, type Mapping } from "../core/mapping.ts";
import type { Path } from "../schema/finding.ts";
import { parseYaml } from "../yaml/parse.ts";
import { chartParts } from "./chart.ts";
import { type DocumentDiagnostic, nameOf, partOf, type SourceDocument } from "./document.ts";
import { needsNoSection } from "./facts.ts";
import { installs, releaseValues } from "./gitops.ts";
import { chartBelow, type DocumentKind, helmBelow, isConfiguration, kindOf, kindOfText } from "./kinds.ts";
import { listAt, type ManifestObject, mappingAt, type Objects, textAt } from "./lint-input.ts";
import type { UnreadDocument } from "./read.ts";
import { outermost, plainFile, type SecretFile, secretEntries, secretFiles, textFiles } from "./secret-files.ts";

/** The key of the main file in the Secret that `driver.existingConfigSecret` of democratic-csi's chart names. */
const chartFile = "driver-config-file.yaml";

type Growing<T> = { readonly [K in keyof T]: T[K] extends readonly (infer Item)[] ? Item[] : T[K] };

/** Everything found in the inputs so far. */
export interface FoundObjects extends Growing<Objects> {
  /** Main files and connections. */
  readonly candidates: UnreadDocument[];
  readonly diagnostics: DocumentDiagnostic[];
  /** The number of other inputs that concern csimux. */
  documents: number;
}

/** Adds what concerns csimux in a Kubernetes object or Helm values at `path` of a document. */
export function addObject(
  around: SourceDocument,
  kind: DocumentKind,
  value: Mapping,
  path: Path,
  found: FoundObjects,
): void {
  const instance = textAt(value, "metadata", "labels", "app.kubernetes.io/instance");
  const document = instance === undefined ? around : { ...around, instance };
  const object = { document, path, value };
  const name = textAt(value, "metadata", "name") ?? "";
  if (kind === "list") {
    for (const [index, item] of listAt(value, "items").entries())
      if (isMapping(item)) addObject(document, kindOf(item), item, [...path, "items", index], found);
  } else if (kind === "secret") {
    found.stores.push({ document, kind: "Secret", name });
    addSecret(object, found);
  } else if (kind === "config-map") {
    found.stores.push({ document, kind: "ConfigMap", name });
    addFiles(document, textFiles(document.source, document.text, value, [...path, "data"]), found);
  } else if (kind === "storage-class") {
    found.classes.push({ ...object, kind: "storage", provisioner: textAt(value, "provisioner"), inHelm: false });
  } else if (kind === "snapshot-class") {
    found.classes.push({ ...object, kind: "snapshot", provisioner: textAt(value, "driver"), inHelm: false });
  } else if (kind === "sealed-secret") addSealed(value, found);
  else if (kind === "persistent-volume") found.volumes.push(object);
  else if (kind === "csi-driver") found.drivers.push(object);
  else if (kind === "kustomization") found.kustomizations.push(object);
  else if (kind === "workload") found.workloads.push(object);
  else if (kind === "release") addRelease(object, found);
  else if (kind === "helm") addHelm(document, value, path, found);
  else if (kind === "chart") addChart(document, value, path, found);
}

/** Adds the values in an object of Flux or Argo CD. */
function addRelease(object: ManifestObject, found: FoundObjects): void {
  const { document, path, value } = object;
  const all = releaseValues(value).map(each => inText(document, [...path, ...each.path], each.value));
  const own = all.filter(each => each.kind === "helm" || each.kind === "chart");
  for (const each of own) addObject(each.document, each.kind, each.value, each.path, found);
  if (own.length > 0 || installs(value, ["democratic-csi", "csimux"])) found.releases.push(object);
}

/** Values at a path of a document; those written as text are a document of their own. */
function inText(document: SourceDocument, path: Path, value: Mapping | string) {
  if (typeof value !== "string") return { document, path, value, kind: kindOf(value) };
  const source = parseYaml(document.file, value);
  const file = outermost(document, plainFile(document.source, document.text, String(path.at(-1)), value, path));
  const { start, outward, name: inside } = file;
  const inner = { ...document, text: value, source, inside, start, outward };
  const whole = isMapping(source.value) ? source.value : {};
  return { document: inner, path: [], value: whole, kind: kindOf(whole) };
}

/** Adds Helm values of democratic-csi's chart, their classes, and a main file among them. */
function addHelm(outer: SourceDocument, whole: Mapping, path: Path, found: FoundObjects): void {
  const key = helmBelow(whole);
  const value = key === undefined ? whole : mappingAt(whole, key);
  const inner = [...path, ...(key === undefined ? [] : [key])];
  const document = inner.length === 0 ? outer : below(outer, inner, value);
  found.helm.push({ document, path: [], value });
  const provisioner = textAt(value, "csiDriver", "name");
  for (const [key, kind] of [
    ["storageClasses", "storage"],
    ["volumeSnapshotClasses", "snapshot"],
  ] as const) {
    for (const [index, item] of listAt(value, key).entries())
      if (isMapping(item))
        found.classes.push({
          document,
          kind,
          path: [key, index],
          value: item,
          provisioner,
          inHelm: true,
          quoted: true,
        });
  }
  const config = mappingAt(value, "driver", "config");
  const { driver } = config;
  if (typeof driver !== "string") return;
  // The chart requires the driver here even if the rest is in a Secret.
  const isInSecret = textAt(value, "driver", "existingConfigSecret") !== undefined || !needsNoSection(driver);
  if (Object.keys(config).length === 1 && isInSecret) return;
  found.candidates.push({ document: below(document, ["driver", "config"], config), name: "proxy", role: "main" });
}

const below = (document: SourceDocument, path: Path, value: Mapping): SourceDocument =>
  partOf(document, value, inner => [...path, ...inner]);

function addChart(document: SourceDocument, whole: Mapping, path: Path, found: FoundObjects): void {
  const key = chartBelow(whole);
  const inner = [...path, ...(key === undefined ? [] : [key])];
  const { candidates, classes, driver, image } = chartParts(document, inner);
  found.candidates.push(...candidates);
  found.classes.push(...classes);
  found.drivers.push(driver);
  found.kustomizations.push(image);
  found.documents++;
}

/** Only the names in a SealedSecret can be read. */
function addSealed(value: Mapping, found: FoundObjects): void {
  const names = Object.keys(mappingAt(value, "spec", "encryptedData")).filter(name => /\.ya?ml$/.test(name));
  found.sealed.push(...names.map(nameOf));
  if (names.length > 0) found.documents++;
}

function addSecret({ document, value, path }: ManifestObject, found: FoundObjects): void {
  addFiles(document, secretFiles(document.source, document.text, value, path), found);
  for (const diagnostic of secretEntries(document, value, path)) {
    found.documents++;
    found.diagnostics.push(diagnostic);
  }
}

/** Adds the files inside a Secret or ConfigMap. Next to connections, every file is read as one. */
function addFiles(document: SourceDocument, files: readonly SecretFile[], found: FoundObjects): void {
  const parsed = files.map(file => {
    const source = parseYaml(document.file, file.text);
    const kind = source.diagnostics.some(each => each.blocks) ? kindOfText(file.text) : kindOf(source.value);
    return { ...file, source, kind };
  });
  const folder = parsed.some(({ kind }) => kind === "connection");
  for (const { name, text, start, outward, source, kind } of parsed) {
    if (!isConfiguration(kind)) continue;
    const inner = { ...document, text, source, inside: name, outward, start };
    // A Secret with only this file is that of democratic-csi's chart: its file may configure one driver.
    const isMain = name === chartFile && parsed.length === 1;
    found.candidates.push({
      document: inner,
      name: nameOf(name),
      role: isMain ? "main" : folder ? "connection" : kind,
    });
  }
}
