/** A compiled pattern of a rule. */
export interface Pattern {
  /** How many groups it has, without the whole match. */
  readonly groups: number;
  /** The whole input and the groups when all of it matches; a group that took no part is empty. */
  readonly match: (input: string) => readonly string[] | undefined;
  /** Whether it fits a part of the input, for people who expect a search. */
  readonly finds: (input: string) => boolean;
}

/** Compiles a pattern in RE2 syntax. Throws an Error whose message says what is wrong with it. */
export type PatternCompiler = (pattern: string) => Pattern;

/** The patterns for "whatever it is", which most rules have; the group is the whole line. */
const anything: ReadonlyMap<string, (input: string) => boolean> = new Map([
  ["(.*)", input => !input.includes("\n")],
  ["(.+)", input => input !== "" && !input.includes("\n")],
]);

/** A longer pattern is no rule that a person wrote; nesting costs stack while it is compiled. */
const maxPatternLength = 1_024;

/** Instructions of a compiled pattern. Larger ones, from nested counted repeats, would make one match take seconds. */
const maxProgramSize = 2_000;

/** A compiler for these patterns; the engine is loaded only where one of them needs it. */
export async function patternCompiler(patterns: readonly string[]): Promise<PatternCompiler> {
  if (!patterns.every(pattern => anything.has(pattern))) return re2();
  return pattern => {
    const fits = anything.get(pattern) ?? (() => false);
    return { groups: 1, match: input => (fits(input) ? [input, input] : undefined), finds: fits };
  };
}

/**
 * The engine for patterns of users: RE2, which matches in linear time, so that no pattern and no input can hang the process.
 * Loading it costs start-up time and memory.
 */
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
