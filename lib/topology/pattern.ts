/** A compiled pattern of a rule. */
export interface Pattern {
  /** The number of groups, without the whole match. */
  readonly groups: number;
  /** The whole input and the groups, if the whole input matches; a group without a match is empty. */
  readonly match: (input: string) => readonly string[] | undefined;
  /** Whether it matches a part of the input, for messages to people who expect a search. */
  readonly finds: (input: string) => boolean;
}

/** Compiles a pattern in RE2 syntax. Throws an Error with the reason. */
export type PatternCompiler = (pattern: string) => Pattern;

/** Patterns that match any line, which most rules use; the group is the whole line. */
const anything: ReadonlyMap<string, (input: string) => boolean> = new Map([
  ["(.*)", input => !input.includes("\n")],
  ["(.+)", input => input !== "" && !input.includes("\n")],
]);

/** The longest pattern, because nesting uses the stack during compilation. */
const maxPatternLength = 1_024;

/** The most instructions of a compiled pattern. Nested counted repeats have more, and one match would take seconds. */
const maxProgramSize = 2_000;

/** Makes a compiler for these patterns; loads the engine only if one of them needs it. */
export async function patternCompiler(patterns: readonly string[]): Promise<PatternCompiler> {
  if (!patterns.every(pattern => anything.has(pattern))) return re2();
  return pattern => {
    const fits = anything.get(pattern) ?? (() => false);
    return { groups: 1, match: input => (fits(input) ? [input, input] : undefined), finds: fits };
  };
}

/** RE2 matches in linear time, so no pattern or input can hang the process. Loading it takes start-up time and memory. */
async function re2(): Promise<PatternCompiler> {
  const { RE2JS } = await import("re2js");
  return pattern => {
    if (pattern.length > maxPatternLength) throw new Error(`longer than ${maxPatternLength} characters`);
    const compiled = RE2JS.compile(pattern);
    if (compiled.programSize() > maxProgramSize) throw new Error("too large; use smaller repeat counts");
    const groups = compiled.groupCount();
    return {
      groups,
      finds: input => compiled.matcher(input).find(),
      match: input => {
        const matcher = compiled.matcher(input);
        if (!matcher.matches()) return undefined;
        return Array.from({ length: groups + 1 }, (_, index) => matcher.group(index) ?? "");
      },
    };
  };
}

const placeholder = /\$?\{match:([0-9]+)\}/g;

/** The groups that a template names: 0 is the whole match. */
export const groupsIn = (template: string): readonly number[] =>
  [...template.matchAll(placeholder)].map(([, group]) => Number(group));

/** Replaces `{match:N}` and `${match:N}` by groups of the match, in one pass: the text of a group is not replaced again. */
export const filled = (template: string, groups: readonly string[]): string =>
  template.replace(placeholder, (_, group: string) => groups[Number(group)] ?? "");
