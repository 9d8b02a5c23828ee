/** Keys and indexes from the top of a file to a value. */
export type Path = readonly (string | number)[];

/** One problem, by path: the result of a schema or rule before lines and columns are known. */
export interface SchemaFinding {
  readonly severity: "error" | "warning";
  /** Stable name of the rule, kebab-case. */
  readonly rule: string;
  readonly path: Path;
  /** Whether the finding is about the key or its value. */
  readonly at: "key" | "value";
  /** What is wrong; never contains a secret. */
  readonly message: string;
  /** What to do. */
  readonly fix: string | undefined;
  /** Whether the file is unusable because of it. Otherwise the file is used: degraded by an error, and a warning is only logged. */
  readonly blocks: boolean;
}

/** A position in a text; both count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

/** One problem with its position. */
export interface Diagnostic extends Position {
  readonly file: string;
  readonly severity: "error" | "warning";
  readonly rule: string;
  /** Dotted path of the key, "" for the whole file. */
  readonly path: string;
  readonly message: string;
  readonly fix: string | undefined;
  readonly blocks: boolean;
}

const plainKey = /^[A-Za-z0-9_-]+$/;

/** An unknown key made safe to show: text joined to it by ":" or "=" is probably its value, possibly a secret. */
export const shownKey = (key: string): string => key.replace(/^([^:=]*[:=]).+$/s, "$1***");

/** `a.b[0]."odd key"`. */
export function dotted(path: Path): string {
  let text = "";
  for (const key of path) {
    if (typeof key === "number") text += `[${key}]`;
    else text += `${text === "" ? "" : "."}${plainKey.test(key) ? key : JSON.stringify(key)}`;
  }
  return text;
}

type FindingMaker = (
  rule: string,
  path: Path,
  message: string,
  fix?: string,
  at?: SchemaFinding["at"],
) => SchemaFinding;

const finding =
  (severity: SchemaFinding["severity"], blocks: boolean): FindingMaker =>
  (rule, path, message, fix, at = "value") => ({ severity, rule, path, at, message, fix, blocks });

/** A finding that makes the file unusable. */
export const failure = finding("error", true);

/** An error that leaves the file usable; it is degraded. */
export const problem = finding("error", false);

/** A warning; the file stays usable. */
export const warning = finding("warning", false);

/** The finding at a position of a file. */
export const located = (file: string, place: Position, finding: SchemaFinding): Diagnostic => {
  const { severity, rule, path, message, fix, blocks } = finding;
  return { file, ...place, severity, rule, path: dotted(path), message, fix, blocks };
};

/** Why a file is unusable: everything that blocks, one per line. */
export const reasons = (diagnostics: readonly Diagnostic[]): string =>
  diagnostics
    .filter(({ blocks }) => blocks)
    .map(inWords)
    .join("\n");

/** `file:line:column: message; fix`. */
export const brief = ({ file, line, column, message, fix }: Diagnostic): string =>
  `${file}:${line}:${column}: ${message}${fix === undefined ? "" : `; ${fix}`}`;

/** `file:line:column: severity: path: message (fix)`, one line. */
export function inWords(diagnostic: Diagnostic): string {
  const { file, line, column, severity, path, message, fix } = diagnostic;
  return `${file}:${line}:${column}: ${severity}: ${path === "" ? "" : `${path}: `}${message}${fix === undefined ? "" : ` (${fix})`}`;
}
