/** The longest pattern of a rule. */
const maxPatternLength = 1_024;

/** A compiled pattern of a rule. */
export interface Pattern {
  /** The number of groups, without the whole match. */
  readonly groups: number;
  /** The whole input and the groups, if the whole input matches; a group without a match is empty. */
  readonly match: (input: string) => readonly string[] | undefined;
  /** Whether it matches a part of the input, for messages to people who expect a search. */
  readonly finds: (input: string) => boolean;
}

/**
 * Compiles a pattern, a regular expression of JavaScript, as democratic-csi takes it. Throws an Error with the reason.
 * The flag "u" refuses letters after a backslash that mean nothing, which would otherwise stand for themselves; every
 * other character may be escaped.
 */
export function compilePattern(pattern: string): Pattern {
  if (pattern.length > maxPatternLength) throw new Error(`longer than ${maxPatternLength} characters`);
  const source = pattern.replace(/\\([ -/:-@[\]-`{-~])/g, (_, sign: string) => `\\x${sign.charCodeAt(0).toString(16)}`);
  const part = new RegExp(source, "u");
  const whole = new RegExp(`^(?:${source})$`, "u");
  return {
    groups: (new RegExp(`${source}|`, "u").exec("")?.length ?? 1) - 1,
    finds: input => part.test(input),
    match: input => whole.exec(input)?.map((group: string | undefined) => group ?? ""),
  };
}

const placeholder = /\$?\{match:([0-9]+)\}/g;

/** The groups that a template names: 0 is the whole match. */
export const groupsIn = (template: string): readonly number[] =>
  [...template.matchAll(placeholder)].map(([, group]) => Number(group));

/** Replaces `{match:N}` and `${match:N}` by groups of the match, in one pass: the text of a group is not replaced again. */
export const filled = (template: string, groups: readonly string[]): string =>
  template.replace(placeholder, (_, group: string) => groups[Number(group)] ?? "");
