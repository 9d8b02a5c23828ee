import type { Mapping } from "../core/mapping.ts";
import type { Diagnostic, Path, Position } from "../schema/finding.ts";
import type { YamlSource } from "../yaml/parse.ts";

/** A YAML document to check: one of a file, a part of one, or a file inside a Secret or ConfigMap. */
export interface SourceDocument {
  /** The file given by the user. */
  readonly file: string;
  /** The text that positions of `source` refer to. */
  readonly text: string;
  readonly source: YamlSource;
  /** The name of the file inside a Secret or ConfigMap; otherwise "". */
  readonly inside: string;
  /** The value of the label app.kubernetes.io/instance of the object around it. */
  readonly instance?: string | undefined;
  /** Converts a position to one in `file`; undefined if the text is base64 there. */
  readonly outward: (position: Position) => Position | undefined;
  /** The position in `file` where the document starts. */
  readonly start: Position;
}

/** A problem of a document; its position refers to the document's own text. */
export interface DocumentDiagnostic {
  readonly document: SourceDocument;
  readonly diagnostic: Diagnostic;
}

/** A document of a file given by the user. */
export const documentOf = (file: string, text: string, source: YamlSource): SourceDocument => ({
  file,
  text,
  source,
  inside: "",
  outward: position => position,
  start: { line: 1, column: 1 },
});

/** A part of a document, or a value made from it, as a document; `outer` converts paths of the value to those of the document. */
export const partOf = (document: SourceDocument, value: Mapping, outer: (path: Path) => Path): SourceDocument => ({
  ...document,
  source: {
    ...document.source,
    value,
    position: (inner, what) => document.source.position(outer(inner), what),
  },
});

/** The name of the connection in a file of this name. */
export const nameOf = (file: string): string => (file.split("/").at(-1) ?? file).replace(/\.(?:ya?ml|json)$/i, "");
