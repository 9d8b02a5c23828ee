import type { Diagnostic, Path, Position, SchemaFinding } from "../schema/finding.ts";
import type { Source } from "../yaml/parse.ts";

/** One document to be checked: a file, a part of one, or a file inside a Secret manifest. */
export interface SourceDocument {
  /** The file that the user gave. */
  readonly file: string;
  /** The document's own text; positions of `source` count in it. */
  readonly text: string;
  readonly source: Source;
  /** The file inside a Secret that this is, "" otherwise. */
  readonly inside: string;
  /** The same place in `file`, or undefined when the text stands there in base64. */
  readonly outward: (position: Position) => Position | undefined;
  /** The place in `file` of the whole document. */
  readonly start: Position;
  /** Where in the whole document it stands, of a part of one. */
  readonly above?: Path;
  /** Whether the value at a path of the whole document must not be printed. */
  readonly isSecret: (path: Path) => boolean;
}

/** A finding and the document it is about. */
export interface DocumentFinding {
  readonly leaf: SourceDocument;
  readonly finding: SchemaFinding;
}

/** The same with its place, counted in the document's own text. */
export interface DocumentDiagnostic {
  readonly leaf: SourceDocument;
  readonly diagnostic: Diagnostic;
}

/** Words in key names that mean secrecy, for keys that no schema describes. */
const secretName = /pass|secret|token|api_?key|private_?key|credential|mutual|^user$|^key$/i;

/** Every key of that name, and what is below it. */
export const secretByName = (path: Path): boolean =>
  path.some(step => typeof step === "string" && secretName.test(step));

const origin: Position = { line: 1, column: 1 };

/** A document of a file that was given, without a schema that would know its secrets. */
export const fileLeaf = (file: string, text: string, source: Source): SourceDocument => ({
  file,
  text,
  source,
  inside: "",
  outward: position => position,
  start: origin,
  isSecret: secretByName,
});
