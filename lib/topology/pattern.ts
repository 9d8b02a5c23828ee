/** A compiled pattern of a rule. */
export interface Pattern {
  /** How many groups it has, without the whole match. */
  readonly groups: number;
  /** The whole input and the groups when all of it matches; a group that took no part is empty. */
  readonly match: (input: string) => readonly string[] | undefined;
}

/** Compiles a pattern in RE2 syntax. Throws an Error whose message says what is wrong with it. */
export type PatternCompiler = (pattern: string) => Pattern;

/** A longer pattern is no rule that a person wrote; nesting costs stack while it is compiled. */
const maxPatternLength = 1_024;

/** Larger programs, such as nested counted repeats, would make one match slow. */
const maxProgramSize = 10_000;

/**
 * The engine for patterns of users. It is loaded only where rules exist, because the library costs start-up time.
 * RE2 matches in linear time, so no pattern and no input can hang the process.
 */
export async function patternCompiler(): Promise<PatternCompiler> {
  const { RE2JS } = await import("re2js");
  return pattern => {
    if (pattern.length > maxPatternLength) throw new Error(`longer than ${maxPatternLength} characters`);
    const compiled = RE2JS.compile(pattern);
    if (compiled.programSize() > maxProgramSize) throw new Error("too large; use smaller repeat counts");
    const groups = compiled.groupCount();
    return {
      groups,
      match: input => {
        const matcher = compiled.matcher(input);
        if (!matcher.matches()) return undefined;
        return Array.from({ length: groups + 1 }, (_, index) => matcher.group(index) ?? "");
      },
    };
  };
}
