import { type Document, LineCounter, parseAllDocuments, parseDocument } from "yaml";
import {
  type Diagnostic,
  type Finding,
  failure,
  located,
  type Path,
  type Position,
  shownKey,
} from "../schema/finding.ts";
import { aliasFault, type Fault, oversights, syntaxFaults, tagFaults } from "./faults.ts";
import { offsetOf } from "./places.ts";
import { customTags } from "./scalars.ts";

/** Largest configuration file in bytes; a Kubernetes Secret cannot hold more than 1 MiB altogether. */
export const maxFileBytes = 1 << 20;

/** One YAML document: its plain value, what is wrong with it as YAML, and where everything stands. */
export interface Source {
  readonly file: string;
  /** Null when one of `diagnostics` blocks. */
  readonly value: unknown;
  readonly document: Document;
  /** Problems of the YAML itself, already placed. */
  readonly diagnostics: readonly Diagnostic[];
  /** Where the key or the value of `path` stands; of a path that is not there, the nearest thing around it that is. */
  position(path: Path, at: Finding["at"]): Position;
}

/** A finding with its place in the file. */
export function placed(source: Pick<Source, "file" | "position">, finding: Finding): Diagnostic {
  const { rule, path, at } = finding;
  const shown = rule === "unknown-key" ? path.map(each => (typeof each === "string" ? shownKey(each) : each)) : path;
  return located(source.file, source.position(path, at), { ...finding, path: shown });
}

// Duplicate keys are looked for in yaml-faults.ts: the parser's own check takes quadratic time.
const options = { customTags, merge: true, prettyErrors: false, uniqueKeys: false, logLevel: "error" } as const;

/** Reads one YAML document (or JSON). Never throws. */
export function parseYaml(file: string, text: string): Source {
  if (text.length > maxFileBytes) return unreadable(file, tooLarge(maxFileBytes));
  const lines = new LineCounter();
  const body = withoutMark(text);
  try {
    return source(file, parseDocument(body, { ...options, lineCounter: lines }), lines);
  } catch (error) {
    return unreadable(file, nesting(error));
  }
}

/** Reads a file of several YAML documents, such as a Kubernetes manifest of at most `maxBytes`. Never throws. */
export function parseYamlDocuments(file: string, text: string, maxBytes: number): readonly Source[] {
  if (text.length > maxBytes) return [unreadable(file, tooLarge(maxBytes))];
  const lines = new LineCounter();
  try {
    const documents: readonly Document[] = parseAllDocuments(withoutMark(text), { ...options, lineCounter: lines });
    return documents.map(document => source(file, document, lines));
  } catch (error) {
    return [unreadable(file, nesting(error))];
  }
}

const withoutMark = (text: string): string => (text.startsWith("\uFEFF") ? text.slice(1) : text);

const tooLarge = (bytes: number): Finding =>
  failure(
    "yaml-too-large",
    [],
    `the file is larger than ${bytes >> 10} KiB`,
    "this is no configuration; check the path",
  );

const nesting = (cause: unknown): Finding =>
  cause instanceof RangeError
    ? failure("yaml-syntax", [], "the file is nested too deeply", "check the brackets and the indentation")
    : failure("yaml-syntax", [], "this cannot be read as YAML", "check the quotes and the indentation");

const top: Position = { line: 1, column: 1 };

const unreadable = (file: string, finding: Finding): Source => ({
  file,
  value: null,
  document: parseDocument(""),
  diagnostics: [located(file, top, finding)],
  position: () => top,
});

function source(file: string, document: Document, lines: LineCounter): Source {
  const at = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return line > 0 ? { line, column: Math.max(col, 1) } : top;
  };
  const told = ({ offset, finding }: Fault) => located(file, at(offset), finding);
  const position: Source["position"] = (path, what) => at(offsetOf(document, path, what));
  const without = (...diagnostics: readonly Diagnostic[]) => ({ file, document, position, value: null, diagnostics });
  const broken = syntaxFaults(document, offset => at(offset).line);
  if (broken.length > 0) return without(...broken.map(told));
  const found = oversights(document);
  const diagnostics = [...found.map(finding => placed({ file, position }, finding)), ...tagFaults(document).map(told)];
  if (found.length > 0) return without(...diagnostics);
  try {
    return { ...without(...diagnostics), value: document.toJS({ maxAliasCount: 100 }) };
  } catch {
    return without(...diagnostics, told(aliasFault(document)));
  }
}
