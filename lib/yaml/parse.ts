import { type Document, LineCounter, parseAllDocuments, parseDocument } from "yaml";
import {
  type Diagnostic,
  failure,
  located,
  type Path,
  type Position,
  type SchemaFinding,
  shownKey,
} from "../schema/finding.ts";
import { type Budget, documentOverBudget, fileBudget, textOverBudget } from "./budget.ts";
import { aliasFault, oversights, syntaxFaults, tagFaults } from "./faults.ts";
import { type OffsetFinding, offsetOf } from "./positions.ts";
import { customTags } from "./scalars.ts";

/** One YAML document: its plain value, its YAML errors, and the positions of its nodes. */
export interface YamlSource {
  readonly file: string;
  /** Null if one of `diagnostics` blocks. */
  readonly value: unknown;
  readonly document: Document;
  /** YAML errors, with their positions. */
  readonly diagnostics: readonly Diagnostic[];
  /** The position of the key or value at `path`; if it does not exist, of the nearest existing node around it. */
  position(path: Path, at: SchemaFinding["at"]): Position;
}

/** A finding with its position in the file. */
export function withPosition(source: Pick<YamlSource, "file" | "position">, finding: SchemaFinding): Diagnostic {
  const { rule, path, at } = finding;
  const shown = rule === "unknown-key" ? path.map(each => (typeof each === "string" ? shownKey(each) : each)) : path;
  return located(source.file, source.position(path, at), { ...finding, path: shown });
}

// Duplicate keys are found in faults.ts: the parser's own check takes quadratic time.
const options = { customTags, merge: true, prettyErrors: false, uniqueKeys: false, logLevel: "error" } as const;

/** The finding about characters that result from reading another encoding as UTF-8, so that parts of the text are lost. */
export function encodingFault(file: string, text: string): Diagnostic | undefined {
  const at = text.indexOf("\uFFFD");
  if (at < 0) return undefined;
  const lines = text.slice(0, at).split("\n");
  const position = { line: lines.length, column: (lines.at(-1)?.length ?? 0) + 1 };
  const message = "this is not UTF-8 text, so parts of it are lost";
  return located(file, position, failure("wrong-encoding", [], message, "save the file as UTF-8"));
}

/** Parses one YAML document (or JSON) within `budget`. Never throws. */
export function parseYaml(file: string, text: string, budget: Budget = fileBudget): YamlSource {
  const excess = textOverBudget(text, budget);
  if (excess) return unreadable(file, excess);
  const lost = encodingFault(file, text);
  if (lost) return unreadable(file, lost);
  const lines = new LineCounter();
  const body = withoutMark(text);
  try {
    return source(file, body, parseDocument(body, { ...options, lineCounter: lines }), lines);
  } catch (error) {
    return unreadable(file, nesting(error));
  }
}

/** The most documents of a file: a whole rendered cluster has hundreds, and each takes a tenth of a millisecond. */
const mostDocuments = 5_000;

/** Parses a file of several YAML documents, such as a Kubernetes manifest, within `budget`. Never throws. */
export function parseYamlDocuments(file: string, text: string, budget: Budget): readonly YamlSource[] {
  if ((text.match(/^---/gm) ?? []).length > mostDocuments) {
    const message = `the file has more than ${mostDocuments} documents`;
    return [unreadable(file, failure("yaml-too-large", [], message, "split it; only commands read such files"))];
  }
  const excess = textOverBudget(text, budget);
  if (excess) return [unreadable(file, excess)];
  const lines = new LineCounter();
  try {
    const body = withoutMark(text);
    const documents: readonly Document[] = parseAllDocuments(body, { ...options, lineCounter: lines });
    if (documents.length === 0) return [parseYaml(file, text, budget)];
    return documents.map(document => source(file, body, document, lines));
  } catch (error) {
    return [unreadable(file, nesting(error))];
  }
}

const withoutMark = (text: string): string => (text.startsWith("\uFEFF") ? text.slice(1) : text);

const nesting = (cause: unknown): SchemaFinding =>
  cause instanceof RangeError
    ? failure("yaml-too-deep", [], "the file is nested too deeply", "check the brackets and the indentation")
    : failure("yaml-syntax", [], "this is not valid YAML", "check the quotes and the indentation");

const top: Position = { line: 1, column: 1 };

const unreadable = (file: string, finding: SchemaFinding | Diagnostic): YamlSource => ({
  file,
  value: null,
  document: parseDocument(""),
  diagnostics: ["line" in finding ? finding : located(file, top, finding)],
  position: () => top,
});

function source(file: string, text: string, document: Document, lines: LineCounter): YamlSource {
  const at = (offset: number): Position => {
    const { line, col } = lines.linePos(offset);
    return line > 0 ? { line, column: Math.max(col, 1) } : top;
  };
  const positioned = ({ offset, finding }: OffsetFinding) => located(file, at(offset), finding);
  const position: YamlSource["position"] = (path, what) => at(offsetOf(document, path, what));
  const without = (...diagnostics: readonly Diagnostic[]) => ({ file, document, position, value: null, diagnostics });
  const broken = syntaxFaults(document, text, offset => at(offset).line);
  if (broken.length > 0) return without(...broken.map(positioned));
  const excess = documentOverBudget(document);
  if (excess) return without(positioned(excess));
  const found = oversights(document);
  const diagnostics = [
    ...found.map(finding => withPosition({ file, position }, finding)),
    ...tagFaults(document).map(positioned),
  ];
  if (found.length > 0) return without(...diagnostics);
  try {
    return { ...without(...diagnostics), value: document.toJS({ maxAliasCount: -1 }) };
  } catch {
    return without(...diagnostics, positioned(aliasFault(document)));
  }
}
