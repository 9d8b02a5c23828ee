import type { Path, SchemaFinding } from "../schema/finding.ts";
import { withPosition } from "../yaml/parse.ts";
import type { DocumentDiagnostic, SourceDocument } from "./document.ts";
import type { LintInput } from "./lint-input.ts";

/** One rule, as documentation, `--list-rules` and SARIF show it. */
export interface Rule {
  /** Stable; used in suppression comments and machine-readable output. */
  readonly id: string;
  readonly severity: "error" | "warning";
  readonly title: string;
  /** What goes wrong otherwise. */
  readonly why: string;
  /** Only `--online` reports it, because it depends on the variables or files of the machine (`LintInput.resolver`). */
  readonly online?: true;
}

/** A rule without its id. */
type RuleText = Omit<Rule, "id">;

export const error = (title: string, why: string): RuleText => ({ severity: "error", title, why });

export const warning = (title: string, why: string): RuleText => ({ severity: "warning", title, why });

/** The rules of a theme by their ids, in the order of the documentation. */
export const rulesById = <Id extends string>(texts: Readonly<Record<Id, RuleText>>): Readonly<Record<Id, Rule>> =>
  Object.fromEntries(Object.entries<RuleText>(texts).map(([id, text]) => [id, { id, ...text }])) as Record<Id, Rule>;

/** The breaches that a check finds. */
export type Found = Iterable<DocumentDiagnostic>;

/** Reports everything in the files of a deployment that breaks the rules of one theme. */
export type Check = (input: LintInput) => Found;

/** Rules with the check that reports them. Without a check, reading the files reports them. */
export interface Theme {
  readonly rules: readonly Rule[];
  readonly check?: Check;
}

/** A breach of `rule` at a path of the document. The message says what is wrong, and `fix` what to do. */
export const report = (
  document: SourceDocument,
  { id, severity }: Pick<Rule, "id" | "severity">,
  path: Path,
  message: string,
  fix?: string,
  at: SchemaFinding["at"] = "value",
): DocumentDiagnostic => ({
  document,
  diagnostic: withPosition(document.source, { severity, rule: id, path, at, message, fix, blocks: false }),
});
