import { isMapping } from "../core/mapping.ts";
import { fileBudget, manifestBudget, textOverBudget } from "../yaml/budget.ts";
import { syntaxErrors } from "../yaml/errors.ts";
import { encodingFault, parseYaml, parseYamlDocuments, type YamlSource } from "../yaml/parse.ts";
import { documentOf, nameOf } from "./document.ts";
import { isConfiguration, kindOf, kindOfText } from "./kinds.ts";
import { addObject, type FoundObjects } from "./objects.ts";
import { report } from "./rule.ts";
import { readingRules } from "./rules/reading.ts";

/** A text to check. */
export interface Input {
  /** The name that the user knows; used in messages. */
  readonly file: string;
  readonly text: string;
  /**
   * What the file is, if known: `main`: the user named it as the main file; `connection`: it is in the connection folder; `given`: the
   * user named the file, so it must contain something; `found`: it was found in a folder and may be anything.
   */
  readonly role: "main" | "connection" | "given" | "found";
  /** The name of the connection in the text, if it does not follow from `file`, as on standard input. */
  readonly name?: string | undefined;
}

/** Every file of csimux contains one of these words; parsing a large foreign file would take long. */
const ownWords = /driver|kind|httpConnection|datasetParentName|shareBasePath|configFolder/i;

/** Reads one input and adds its documents to `found`. */
export function addInput(input: Input, found: FoundObjects): void {
  const { file, text, role } = input;
  if (role === "found" && !ownWords.test(text.replaceAll("\0", ""))) return;
  if (text.includes("\uFFFD")) {
    addWrongEncoding(file, text, found);
    // UTF-16 read as UTF-8 has no meaning.
    if (text.includes("\0")) return;
  }
  const sources =
    role === "main" || role === "connection"
      ? [parseYaml(file, text)]
      : parseYamlDocuments(file, text, manifestBudget).map(each => likeDaemon(each, text));
  if (sources.some(isEncrypted)) {
    found.documents++;
    found.encrypted.push(file);
    const isFile = sources.every(({ value }) => !isMapping(value) || !("apiVersion" in value));
    if (isFile && role !== "main") found.sealed.push(input.name ?? nameOf(file));
    return;
  }
  const before = sizeOf(found);
  for (const source of sources) addDocument(input, source, found);
  const [first] = sources;
  if (!first) return;
  const document = documentOf(file, text, first);
  if (sources.length > 1 && sources.some(({ value }) => isConfiguration(kindOf(value))))
    found.diagnostics.push(report(document, readingRules["yaml-syntax"], [], ...syntaxErrors.MULTIPLE_DOCS));
  if (role === "given" && sizeOf(found) === before && !isOtherManifest(sources)) {
    const message = "not a file of csimux: expected a configuration, a class or a Secret of connection files";
    const fix = 'start a connection file with "driver: <name>"';
    found.diagnostics.push(report(document, readingRules["nothing-to-check"], [], message, fix));
  }
}

/** Reads a configuration within the daemon's budget, which is smaller than that of manifests. */
const likeDaemon = (source: YamlSource, text: string): YamlSource =>
  isConfiguration(kindOf(source.value)) && textOverBudget(text, fileBudget) ? parseYaml(source.file, text) : source;

/** Whether sops encrypted the values: it adds a mapping with a code that authenticates them (getsops/sops, "Encryption Protocol"). */
export const isEncrypted = ({ value }: Pick<YamlSource, "value">): boolean =>
  isMapping(value) && isMapping(value["sops"]) && typeof value["sops"]["mac"] === "string";

const sizeOf = ({ candidates, classes, helm, volumes, documents }: FoundObjects): number =>
  candidates.length + classes.length + helm.length + volumes.length + documents;

function addWrongEncoding(file: string, text: string, found: FoundObjects): void {
  const diagnostic = encodingFault(file, text);
  if (!diagnostic) return;
  // A source with a blocking diagnostic is shown without values, because its secrets are unknown.
  const document = documentOf(file, text, { ...parseYaml(file, ""), diagnostics: [diagnostic] });
  found.documents++;
  found.diagnostics.push({ document, diagnostic });
}

/** Whether these are manifests that do not concern csimux, such as those of a rendered chart; Secrets and empty documents included. */
function isOtherManifest(sources: readonly YamlSource[]): boolean {
  const values = sources.map(({ value }) => value).filter(value => value !== null);
  return values.some(isOtherObject) && values.every(value => isOtherObject(value) || kindOf(value) === "secret");
}

const otherKinds: readonly string[] = ["other", "csi-driver", "workload", "kustomization", "release"];

const isOtherObject = (value: unknown): boolean =>
  isMapping(value) && typeof value["kind"] === "string" && "apiVersion" in value && otherKinds.includes(kindOf(value));

function addDocument(input: Input, source: YamlSource, found: FoundObjects): void {
  const { file, text, role, name = nameOf(file) } = input;
  const document = documentOf(file, text, source);
  const broken = source.diagnostics.some(each => each.blocks);
  const guess = broken ? kindOfText(text) : kindOf(source.value);
  if (role === "main" || role === "connection") {
    // Whatever the text: the user named the main file, and every other file of the folder is a connection.
    found.candidates.push({ document, name, role, named: role === "main" });
  } else if (guess === "main" || guess === "connection") {
    found.candidates.push({ document, name, role: guess });
    if (guess === "connection" && /\.(?:ya?ml|json)$/i.test(file) && !/\.ya?ml$/.test(file)) {
      const message = "the daemon ignores this file: it reads only files that end in .yaml or .yml";
      found.diagnostics.push(
        report(document, readingRules["file-not-read"], [], message, `rename it to "${nameOf(file)}.yaml"`),
      );
    }
  } else if (broken && role === "found" && text.includes("{{")) {
    // A template of a chart is not YAML yet.
  } else if (broken && (guess !== "other" || role === "given")) {
    found.documents++;
    found.diagnostics.push(...source.diagnostics.map(diagnostic => ({ document, diagnostic })));
  } else if (isMapping(source.value)) addObject(document, guess, source.value, [], found);
}
