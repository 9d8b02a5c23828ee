import { failure, located, type Path, type Position } from "../config/finding.ts";
import { isMapping, type Mapping } from "../config/mapping.ts";
import type { Outside } from "../config/outside.ts";
import { noDefaults } from "../config/proxy.ts";
import { parseYaml, parseYamlDocuments, type Source } from "../config/yaml.ts";
import type { DriverModule } from "../drivers/module.ts";
import type { PatternCompiler } from "../topology/pattern.ts";
import { type Kind, kindOf, kindOfText } from "./kinds.ts";
import { type Leaf, type Placed, type Reported, secretByName } from "./leaf.ts";
import { type Candidate, connectionFile, mainFile } from "./read.ts";
import { secretEntries } from "./secret-entries.ts";
import { secretFiles } from "./secret-files.ts";
import {
  type ClassObject,
  type ConnectionFile,
  type HelmValues,
  listAt,
  mappingAt,
  textAt,
  type World,
} from "./world.ts";

/** A text to be checked. */
export interface Input {
  /** As the user knows it; used in messages. */
  readonly file: string;
  readonly text: string;
  /**
   * What it is, where that is known: the main file was named as such, or the file lies in the connection folder.
   * `given`: the user named this very file, so it must be something. `found`: met in a folder, may be anything.
   */
  readonly role: "main" | "connection" | "given" | "found";
}

/** Largest manifest in bytes. */
const maxManifestBytes = 4 << 20;

const origin: Position = { line: 1, column: 1 };

interface Gathered {
  readonly candidates: Candidate[];
  readonly classes: ClassObject[];
  readonly helm: HelmValues[];
  readonly reported: Reported[];
  readonly placed: Placed[];
  /** Inputs that hold something of ours. */
  documents: number;
}

/** What was given, read and sorted; plus findings about what could not be sorted. */
export interface Sorted {
  readonly world: World;
  readonly leaves: readonly Leaf[];
  readonly reported: readonly Reported[];
  readonly placed: readonly Placed[];
}

/** Reads all inputs. Pure; never throws. */
export function gather(
  inputs: readonly Input[],
  modules: readonly DriverModule[],
  outside: Outside,
  compile: PatternCompiler,
): Sorted {
  const found: Gathered = { candidates: [], classes: [], helm: [], reported: [], placed: [], documents: 0 };
  for (const input of inputs) addInput(input, found);
  const mains = found.candidates
    .filter(({ role }) => role === "main")
    .map(({ leaf }) => mainFile(leaf, modules, outside));
  const main = mains[0];
  const defaults = main?.read.partial?.defaults ?? noDefaults;
  const connections = found.candidates
    .filter(({ role }) => role === "connection")
    .map(candidate => connectionFile(candidate, defaults, modules, outside));
  for (const other of mains.slice(1)) {
    const message = `another main file was read before: ${main?.leaf.file ?? ""}`;
    found.reported.push({
      leaf: other.leaf,
      finding: failure("several-main-files", ["driver"], message, "check one deployment at a time", "key"),
    });
  }
  const placed = [
    ...found.placed,
    ...[...mains, ...connections].flatMap(({ leaf, read }) =>
      read.diagnostics.map(diagnostic => ({ leaf, diagnostic })),
    ),
  ];
  const leaves = [...mains, ...connections, ...found.classes, ...found.helm].map(({ leaf }) => leaf);
  const world = {
    main,
    connections: distinct(connections),
    classes: found.classes,
    helm: found.helm,
    modules,
    compile,
  };
  const others = [...found.reported, ...placed].map(({ leaf }) => leaf);
  return { world, leaves: [...new Set([...leaves, ...others])], reported: found.reported, placed };
}

/** The same text under the same name, as a file and in the Secret made from it, is one connection. */
function distinct(connections: readonly ConnectionFile[]): readonly ConnectionFile[] {
  const seen = new Set<string>();
  return connections.filter(({ name, leaf }) => {
    const key = `${name}\n${leaf.text}`;
    if (seen.has(key)) return false;
    seen.add(key);
    return true;
  });
}

/** Words of which every file of csimux has one; parsing a large foreign file would take long. */
const telling = /driver|kind|httpConnection|datasetParentName|shareBasePath|configFolder/i;

function addInput(input: Input, found: Gathered): void {
  const { file, text, role } = input;
  if (role === "found" && !telling.test(text.replaceAll("\0", ""))) return;
  const foreign = foreignText(file, text);
  if (foreign) {
    found.documents++;
    found.placed.push(foreign);
    // UTF-16 read as UTF-8: nothing in it means anything.
    if (text.includes("\0")) return;
  }
  const sources = parseYamlDocuments(file, text, maxManifestBytes);
  const before = found.candidates.length + found.classes.length + found.helm.length + found.documents;
  for (const source of sources) addDocument(input, source, found);
  const plain = sources.map(source => kindOf(source.value)).filter(kind => kind === "main" || kind === "connection");
  const [first] = sources;
  if (!first) return;
  const leaf = fileLeaf(file, text, first);
  if (plain.length > 1) {
    const message = "the file holds several configurations; only the first would be read";
    found.reported.push({ leaf, finding: failure("yaml-syntax", [], message, "put each into a file of its own") });
  }
  const after = found.candidates.length + found.classes.length + found.helm.length + found.documents;
  if (role === "given" && after === before && !isOtherManifest(sources)) {
    const message = "this is no file that csimux knows: no configuration, no class, no Secret with connection files";
    found.reported.push({
      leaf: { ...leaf, isSecret: () => true },
      finding: failure("nothing-to-check", [], message, 'a connection file begins with "driver: <name>"'),
    });
  }
}

/** What reading another encoding as UTF-8 leaves behind, with its place. */
function foreignText(file: string, text: string): Placed | undefined {
  const at = text.indexOf("\uFFFD");
  if (at < 0) return undefined;
  const lines = text.slice(0, at).split("\n");
  const place = { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
  const message = "this is not UTF-8 text, so some of it is lost";
  const diagnostic = located(file, place, failure("wrong-encoding", [], message, "save the file as UTF-8"));
  // A source that says so is shown without its values: nobody knows which of them are secret.
  const leaf = fileLeaf(file, text, { ...parseYaml(file, ""), diagnostics: [diagnostic] });
  return { leaf, diagnostic };
}

/** Manifests as charts render them: objects that have nothing to do with csimux, other Secrets and empty documents among them. */
function isOtherManifest(sources: readonly Source[]): boolean {
  const values = sources.map(({ value }) => value).filter(value => value !== null);
  return values.some(isOtherObject) && values.every(value => isOtherObject(value) || kindOf(value) === "secret");
}

/** A Kubernetes object of a kind that has nothing to do with csimux: a deployment, a role. */
const isOtherObject = (value: unknown): boolean =>
  isMapping(value) && typeof value["kind"] === "string" && "apiVersion" in value && kindOf(value) === "other";

const baseName = (file: string): string => (file.split("/").at(-1) ?? file).replace(/\.(?:ya?ml|json)$/, "");

function addDocument(input: Input, source: Source, found: Gathered): void {
  const { file, text, role } = input;
  const leaf = fileLeaf(file, text, source);
  const broken = source.diagnostics.some(each => each.blocks);
  const guess = broken ? kindOfText(text) : kindOf(source.value);
  if (role === "main" || role === "connection") {
    found.candidates.push({
      leaf,
      name: baseName(file),
      role: role === "connection" && guess === "main" ? "main" : role,
    });
  } else if (guess === "main" || guess === "connection") {
    found.candidates.push({ leaf, name: baseName(file), role: guess });
  } else if (broken && role === "found" && text.includes("{{")) {
    // A template of a chart is no YAML yet.
  } else if (broken && (guess !== "other" || role === "given")) {
    found.documents++;
    found.placed.push(...source.diagnostics.map(diagnostic => ({ leaf, diagnostic })));
  } else if (isMapping(source.value)) addObject(leaf, guess, source.value, [], found);
}

function addObject(leaf: Leaf, kind: Kind, value: Mapping, path: Path, found: Gathered): void {
  if (kind === "list") {
    for (const [index, item] of listAt(value, "items").entries()) {
      if (isMapping(item)) addObject(leaf, kindOf(item), item, [...path, "items", index], found);
    }
  }
  if (kind === "secret") addSecret(leaf, value, path, found);
  if (kind === "storage-class" || kind === "snapshot-class") found.classes.push(classObject(leaf, kind, value, path));
  if (kind === "helm") addHelm(leaf, value, found);
}

function classObject(leaf: Leaf, kind: "storage-class" | "snapshot-class", value: Mapping, path: Path): ClassObject {
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
function addHelm(leaf: Leaf, value: Mapping, found: Gathered): void {
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
  if (config["driver"] !== "proxy" || Object.keys(config).length === 1) return;
  const source: Source = {
    ...leaf.source,
    value: config,
    position: (path, what) => leaf.source.position(["driver", "config", ...path], what),
  };
  found.candidates.push({ leaf: { ...leaf, source, isSecret: secretByName }, name: "proxy", role: "main" });
}

function addSecret(leaf: Leaf, secret: Mapping, path: Path, found: Gathered): void {
  for (const { name, text, start, outward } of secretFiles(leaf.source, leaf.text, secret, path)) {
    const [source] = parseYamlDocuments(leaf.file, text, maxManifestBytes);
    if (!source) continue;
    const kind = source.diagnostics.some(each => each.blocks) ? kindOfText(text) : kindOf(source.value);
    if (kind !== "main" && kind !== "connection") continue;
    const inner: Leaf = { file: leaf.file, text, source, inside: name, outward, start, isSecret: secretByName };
    found.candidates.push({ leaf: inner, name: baseName(name), role: kind });
  }
  // What stands in a Secret is nobody's to read; base64 hides nothing.
  const hiding = { ...leaf, isSecret: () => true };
  for (const finding of secretEntries(secret, path)) {
    found.documents++;
    found.reported.push({ leaf: hiding, finding });
  }
}

const fileLeaf = (file: string, text: string, source: Source): Leaf => ({
  file,
  text,
  source,
  inside: "",
  outward: position => position,
  start: origin,
  isSecret: secretByName,
});
