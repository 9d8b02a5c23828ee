import { brief, type Diagnostic, located, warning } from "./finding.ts";
import { meant, nearest } from "./nearest.ts";

const comment = /(?:^|\s)#\s*csimux-ignore\b([^#]*)/;

interface Suppression {
  readonly line: number;
  readonly column: number;
  /** The line that the comment refers to. */
  readonly target: number;
  readonly rule: string;
}

/** `# csimux-ignore rule, rule` at the end of a line refers to that line; on a separate line, to the next line with content. */
function suppressions(text: string): readonly Suppression[] {
  if (!text.includes("csimux-ignore")) return [];
  const lines = text.split("\n");
  return lines.flatMap((content, index) => {
    const match = comment.exec(content);
    if (!match) return [];
    const alone = content.slice(0, match.index).trim() === "" && /^\s*#/.test(content);
    const next = lines.findIndex((line, at) => at > index && line.trim() !== "" && !/^\s*#/.test(line));
    const target = (alone ? next : index) + 1;
    const rules = (match[1] ?? "").split(/[\s,]+/).filter(each => each !== "");
    const place = { line: index + 1, column: content.indexOf("#", match.index) + 1, target };
    return rules.length === 0 ? [{ ...place, rule: "" }] : rules.map(rule => ({ ...place, rule }));
  });
}

/**
 * The problems of one text without those that a comment suppresses, and a warning for each comment that suppresses none. No comment makes an
 * unusable file usable.
 */
export function suppressed(
  file: string,
  text: string,
  diagnostics: readonly Diagnostic[],
  ruleIds: ReadonlySet<string>,
): readonly Diagnostic[] {
  const all = suppressions(text);
  if (all.length === 0) return diagnostics;
  const used = new Set<Suppression>();
  const kept = diagnostics.filter(diagnostic => {
    const match = all.find(each => each.target === diagnostic.line && each.rule === diagnostic.rule);
    if (match) for (const each of all) if (each.target === match.target && each.rule === match.rule) used.add(each);
    return !match || diagnostic.blocks;
  });
  const unused = all.filter(each => !used.has(each)).map(each => unusedComment(file, each, ruleIds));
  return [...kept, ...unused];
}

/** What degrades a usable file with this text: its first error that no comment suppresses. Undefined without one. */
export function defectOf(text: string, diagnostics: readonly Diagnostic[]): string | undefined {
  const kept = suppressed("", text, diagnostics, new Set());
  const [first, ...more] = kept.filter(({ severity }) => severity === "error");
  return first && `${brief(first)}${more.length > 0 ? ` (and ${more.length} more)` : ""}`;
}

function unusedComment(file: string, { line, column, rule }: Suppression, ruleIds: ReadonlySet<string>): Diagnostic {
  const near = nearest(rule, ruleIds);
  const [message, fix] =
    rule === ""
      ? ["this comment does not name a rule", "write # csimux-ignore <rule>"]
      : ruleIds.has(rule)
        ? [`nothing on this line breaks the rule "${rule}"`, "remove the comment"]
        : [`there is no rule "${rule}"`, near ? meant(near) : "csimux validate --list-rules lists them"];
  return located(file, { line, column }, warning("unused-suppression", [], message, fix));
}
