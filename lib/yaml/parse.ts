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
import { type Budget, documentOverBudget, fileBudget, textOverBudget } from "./budget.ts";
import { aliasFault, type Fault, oversights, syntaxFaults, tagFaults } from "./faults.ts";
import { offsetOf, start } from "./places.ts";
import { customTags } from "./scalars.ts";

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

/** Reads one YAML document (or JSON) of at most what `budget` allows. Never throws. */
export function parseYaml(file: string, text: string, budget: Budget = fileBudget): Source {
  const excess = textOverBudget(text, budget);
  if (excess) return unreadable(file, excess);
  const lines = new LineCounter();
  const body = withoutMark(text);
  try {
    return source(file, parseDocument(body, { ...options, lineCounter: lines }), lines);
  } catch (error) {
    return unreadable(file, nesting(error));
  }
}

/** Reads a file of several YAML documents, such as a Kubernetes manifest, of at most what `budget` allows. Never throws. */
export function parseYamlDocuments(file: string, text: string, budget: Budget): readonly Source[] {
  const excess = textOverBudget(text, budget);
  if (excess) return [unreadable(file, excess)];
  const lines = new LineCounter();
  try {
    const documents: readonly Document[] = parseAllDocuments(withoutMark(text), { ...options, lineCounter: lines });
    if (documents.length === 0) return [parseYaml(file, text, budget)];
    return documents.map(document => source(file, document, lines));
  } catch (error) {
    return [unreadable(file, nesting(error))];
  }
}

const withoutMark = (text: string): string => (text.startsWith("\uFEFF") ? text.slice(1) : text);

const nesting = (cause: unknown): Finding =>
  cause instanceof RangeError
    ? failure("yaml-too-deep", [], "the file is nested too deeply", "check the brackets and the indentation")
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
  const excess = documentOverBudget(document);
  if (excess) return without(told({ offset: start(excess.node) ?? 0, finding: excess.finding }));
  const found = oversights(document);
  const diagnostics = [...found.map(finding => placed({ file, position }, finding)), ...tagFaults(document).map(told)];
  if (found.length > 0) return without(...diagnostics);
  try {
    return { ...without(...diagnostics), value: document.toJS({ maxAliasCount: -1 }) };
  } catch {
    return without(...diagnostics, told(aliasFault(document)));
  }
}
