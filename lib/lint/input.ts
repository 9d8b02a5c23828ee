import { failure, located, problem, type SchemaFinding } from "../schema/finding.ts";
import { isMapping } from "../schema/mapping.ts";
import { fileBudget, manifestBudget, textOverBudget } from "../yaml/budget.ts";
import { syntaxErrors } from "../yaml/errors.ts";
import { parseYaml, parseYamlDocuments, type Source } from "../yaml/parse.ts";
import { explained } from "./explain.ts";
import { nameOf } from "./file-name.ts";
import { type DocumentKind, isConfiguration, kindOf, kindOfText } from "./kinds.ts";
import { addObject, type FoundObjects } from "./objects.ts";
import { type DocumentDiagnostic, fileLeaf } from "./source-document.ts";

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
  /** The connection that the text would be, where `file` does not say it: on standard input. */
  readonly name?: string | undefined;
}

/** Words of which every file of csimux has one; parsing a large foreign file would take long. */
const telling = /driver|kind|httpConnection|datasetParentName|shareBasePath|configFolder/i;

/** Reads one input and sorts its documents; what fits nowhere is reported. */
export function addInput(input: Input, found: FoundObjects): void {
  const { file, text, role } = input;
  if (role === "found" && !telling.test(text.replaceAll("\0", ""))) return;
  const foreign = foreignText(file, text);
  if (foreign) {
    found.documents++;
    found.placed.push(foreign);
    // UTF-16 read as UTF-8: nothing in it means anything.
    if (text.includes("\0")) return;
  }
  const sources =
    role === "main" || role === "connection"
      ? [explained(parseYaml(file, text), text)]
      : parseYamlDocuments(file, text, manifestBudget).map(each => explained(asServed(each, text), text));
  const before = sizeOf(found);
  if (sources.some(isEncrypted)) {
    found.documents++;
    found.encrypted.push(file);
    const isFile = sources.every(({ value }) => !isMapping(value) || !("apiVersion" in value));
    if (isFile && role !== "main") found.sealed.push(input.name ?? nameOf(file));
    return;
  }
  for (const source of sources) addDocument(input, source, found);
  const plain = sources.filter(({ value }) => isConfiguration(kindOf(value)));
  const [first] = sources;
  if (!first) return;
  const leaf = fileLeaf(file, text, first);
  if (plain.length > 0 && sources.length > 1) {
    found.reported.push({ leaf, finding: failure("yaml-syntax", [], ...syntaxErrors.MULTIPLE_DOCS) });
  }
  const after = sizeOf(found);
  if (role === "given" && after === before && !isOtherManifest(sources)) {
    const message = "this is no file that csimux knows: no configuration, no class, no Secret with connection files";
    found.reported.push({
      leaf: { ...leaf, isSecret: () => true },
      finding: failure("nothing-to-check", [], message, 'a connection file begins with "driver: <name>"'),
    });
  }
}

/** A configuration is read as the daemon reads it, within a smaller budget than manifests have. */
const asServed = (source: Source, text: string): Source =>
  isConfiguration(kindOf(source.value)) && textOverBudget(text, fileBudget) ? parseYaml(source.file, text) : source;

/** A file whose name keeps the daemon from reading it. */
function passedOver(file: string): SchemaFinding | undefined {
  if (/\.ya?ml$/.test(file) || !/\.(?:ya?ml|json)$/i.test(file)) return undefined;
  const message = "the daemon reads files that end in .yaml or .yml only, and passes over this one";
  return problem("file-not-read", [], message, `rename it to "${nameOf(file)}.yaml"`);
}

/** Whether sops has encrypted the values: it adds a mapping with a code that proves them (getsops/sops, "Encryption Protocol"). */
const isEncrypted = ({ value }: Source): boolean =>
  isMapping(value) && isMapping(value["sops"]) && typeof value["sops"]["mac"] === "string";

/** How much was found that csimux has to do with. */
const sizeOf = ({ candidates, classes, helm, volumes, documents }: FoundObjects): number =>
  candidates.length + classes.length + helm.length + volumes.length + documents;

/** What reading another encoding as UTF-8 leaves behind, with its place. */
function foreignText(file: string, text: string): DocumentDiagnostic | undefined {
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

/** A Kubernetes object that may have nothing to do with csimux: a deployment, a role. */
const isOtherObject = (value: unknown): boolean =>
  isMapping(value) && typeof value["kind"] === "string" && "apiVersion" in value && isOther(kindOf(value));

const isOther = (kind: DocumentKind): boolean =>
  kind === "other" || kind === "csi-driver" || kind === "workload" || kind === "kustomization";

function addDocument(input: Input, source: Source, found: FoundObjects): void {
  const { file, text, role, name = nameOf(file) } = input;
  const leaf = fileLeaf(file, text, source);
  const broken = source.diagnostics.some(each => each.blocks);
  const guess = broken ? kindOfText(text) : kindOf(source.value);
  if (role === "main" || role === "connection") {
    // Whatever it says: the main file is the one that was named as such, and no file of the folder.
    found.candidates.push({ leaf, name, role, named: role === "main" });
  } else if (guess === "main" || guess === "connection") {
    found.candidates.push({ leaf, name, role: guess });
    const finding = guess === "connection" ? passedOver(file) : undefined;
    if (finding) found.reported.push({ leaf, finding });
  } else if (broken && role === "found" && text.includes("{{")) {
    // A template of a chart is no YAML yet.
  } else if (broken && (guess !== "other" || role === "given")) {
    found.documents++;
    found.placed.push(...source.diagnostics.map(diagnostic => ({ leaf, diagnostic })));
  } else if (isMapping(source.value)) addObject(leaf, guess, source.value, [], found);
}
