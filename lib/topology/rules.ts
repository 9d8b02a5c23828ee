import { CsiError, messageOf } from "../core/errors.ts";
import type { RuleConfig, TopologyConfig } from "./config.ts";
import { groupsIn, type Pattern, type PatternCompiler, patternCompiler } from "./pattern.ts";

/** A rule with its pattern compiled. */
export interface CompiledRule extends RuleConfig {
  /** Index in the list. */
  readonly index: number;
  readonly compiled: Pattern;
}

/** The topology that nodes report, ready to be evaluated. */
export type CompiledTopology =
  | { readonly kind: "cluster" | "node"; readonly prefix: string }
  | { readonly kind: "rules"; readonly prefix: string; readonly rules: readonly CompiledRule[] };

/** A mistake in one rule. */
export interface RuleProblem {
  /** Index in the list. */
  readonly rule: number;
  readonly field: "pattern" | "template";
  readonly message: string;
}

/** Compiles all rules and lists their mistakes; `rules` are those without any. */
export function compileRules(
  rules: readonly RuleConfig[],
  compile: PatternCompiler,
): { readonly rules: readonly CompiledRule[]; readonly problems: readonly RuleProblem[] } {
  const problems: RuleProblem[] = [];
  const usable: CompiledRule[] = [];
  for (const [index, rule] of rules.entries()) {
    const found = compileRule(rule, index, compile);
    if ("compiled" in found) usable.push(found);
    else problems.push(found);
  }
  return { rules: usable, problems };
}

function compileRule(rule: RuleConfig, index: number, compile: PatternCompiler): CompiledRule | RuleProblem {
  let compiled: Pattern;
  try {
    compiled = compile(rule.pattern);
  } catch (error) {
    const reason = messageOf(error).replace(/^error parsing regexp: /, "");
    const why = refusedByRe2(rule.pattern) ?? `${reason} (syntax: RE2)`;
    return { rule: index, field: "pattern", message: `the pattern cannot be used: ${why}` };
  }
  const wrong = templateProblem(rule.template, compiled.groups);
  return wrong === undefined ? { ...rule, index, compiled } : { rule: index, field: "template", message: wrong };
}

/** Features of other engines that RE2 lacks, because a match could take exponential time. */
const lacking: readonly (readonly [RegExp, string])[] = [
  [/\(\?<?[=!]/, "look-ahead or look-behind; match the text around it and take a group"],
  [/\\[1-9]|\\k</, "reference back to a group"],
  [/\(\?>|[*+?}]\+/, "atomic group or possessive repeat"],
];

/** Why RE2 refuses a pattern that other engines accept; undefined for other mistakes. */
function refusedByRe2(pattern: string): string | undefined {
  const plain = pattern.replace(/\\[^1-9k]/g, "");
  for (const [form, what] of lacking) {
    const found = form.exec(plain);
    if (found) return `"${found[0]}" is not RE2, which has no ${what}`;
  }
  return undefined;
}

function templateProblem(template: string, groups: number): string | undefined {
  const missing = groupsIn(template).find(group => group > groups);
  if (missing === undefined) return undefined;
  return `the template names group ${missing}, but the pattern has ${groups === 0 ? "no groups" : `only ${groups}`}`;
}

/**
 * The topology of a main file, compiled. Loads the pattern engine only for rules.
 * Throws "failed-precondition" that lists every wrong rule.
 */
export async function compileTopology(config: TopologyConfig): Promise<CompiledTopology> {
  if (config.kind !== "rules") return config;
  const { rules, problems } = compileRules(config.rules, await patternCompiler(config.rules.map(rule => rule.pattern)));
  if (problems.length === 0) return { kind: "rules", prefix: config.prefix, rules };
  const lines = problems.map(({ rule, message }) => `rule ${rule + 1} (key "${config.rules[rule]?.key}"): ${message}`);
  throw new CsiError("failed-precondition", `proxy.nodeTopology cannot be used: ${lines.join("; ")}`);
}
