import { failure, type Path, type SchemaFinding } from "../schema/finding.ts";
import { isMapping, type Mapping } from "../schema/mapping.ts";
import { fileBudget } from "../yaml/budget.ts";
import { parseYamlDocuments } from "../yaml/parse.ts";
import { nameOf } from "./file-name.ts";
import { hasSection, kindOf, kindOfText } from "./kinds.ts";
import { mappingAt } from "./lint-input.ts";
import { decoded } from "./secret-files.ts";

const isFileName = (name: string): boolean => /\.ya?ml$/.test(name);

/**
 * Entries of the Secret at `path` that hold a configuration, or stand beside some, and that csimux would not read:
 * what is in the wrong one of `data` and `stringData`, is no text, has a name that is passed over, or holds nothing.
 * Each is one finding at the key of the entry; none quotes what is in it.
 */
export function* secretEntries(secret: Mapping, path: Path): Iterable<SchemaFinding> {
  const data = Object.entries(mappingAt(secret, "data"));
  const plain = Object.entries(mappingAt(secret, "stringData"));
  const texts = [...data.map(([, value]) => textOf(value)), ...plain.map(([, value]) => value)];
  const beside = texts.some(text => typeof text === "string" && kindOfFile(text) === "connection");
  for (const [name, value] of data) yield* at([...path, "data", name], encodedFault(name, value, beside));
  for (const [name, value] of plain) yield* at([...path, "stringData", name], plainFault(name, value, beside));
}

type EntryFault = readonly [message: string, fix: string];

function* at(path: Path, fault: EntryFault | undefined): Iterable<SchemaFinding> {
  if (fault) yield failure("secret-entry", path, fault[0], fault[1], "key");
}

function encodedFault(name: string, value: unknown, beside: boolean): EntryFault | undefined {
  const text = textOf(value);
  if (text !== undefined) return textFault(name, text, beside);
  if (isConfiguration(value))
    return [`"${name}" is plain text, but "data" holds base64`, 'put the entry under "stringData"'];
  if (typeof value === "string" && beside && isFileName(name))
    return [
      `"${name}" is no text in base64, so Kubernetes refuses the Secret`,
      'put the plain text under "stringData"',
    ];
  return noText(name, value);
}

function plainFault(name: string, value: unknown, beside: boolean): EntryFault | undefined {
  if (typeof value !== "string") return noText(name, value);
  if (isConfiguration(textOf(value)))
    return [`"${name}" is base64, but "stringData" holds plain text`, 'put the entry under "data"'];
  return textFault(name, value, beside);
}

/** A mapping where the text of a file belongs: the "|" behind the name is missing. */
const noText = (name: string, value: unknown): EntryFault | undefined =>
  isMapping(value) && isConnectionOrMain(kindOf(value))
    ? [`"${name}" is a mapping, but entries of a Secret are text`, `write "${name}: |"`]
    : undefined;

function textFault(name: string, text: string, beside: boolean): EntryFault | undefined {
  if (isFileName(name)) {
    if (!beside || isConfiguration(text)) return undefined;
    return [
      `"${name}" holds no configuration`,
      'a connection begins with "driver: <name>"; remove the entry otherwise',
    ];
  }
  if (
    kindOfFile(text) !== "connection" ||
    !parseYamlDocuments("", text, fileBudget).some(each => hasSection(each.value))
  )
    return undefined;
  return [`"${name}" is passed over: connection files end in .yaml or .yml`, `rename it to "${nameOf(name)}.yaml"`];
}

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? decoded(value) : undefined);

const isConfiguration = (value: unknown): boolean => typeof value === "string" && isConnectionOrMain(kindOfFile(value));

const isConnectionOrMain = (kind: string): boolean => kind === "connection" || kind === "main";

function kindOfFile(text: string): string {
  if (!text.includes(":")) return "other";
  const [source] = parseYamlDocuments("", text, fileBudget);
  const broken = !source || source.diagnostics.some(each => each.blocks);
  return broken ? kindOfText(text) : kindOf(source.value);
}
