import { CsiError, messageOf } from "../core/errors.ts";
import type { RuleConfig, TopologyConfig } from "./config.ts";
import { compilePattern, groupsIn, type Pattern } from "./pattern.ts";

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
export function compileRules(rules: readonly RuleConfig[]): {
  readonly rules: readonly CompiledRule[];
  readonly problems: readonly RuleProblem[];
} {
  const problems: RuleProblem[] = [];
  const usable: CompiledRule[] = [];
  for (const [index, rule] of rules.entries()) {
    const found = compileRule(rule, index);
    if ("compiled" in found) usable.push(found);
    else problems.push(found);
  }
  return { rules: usable, problems };
}

function compileRule(rule: RuleConfig, index: number): CompiledRule | RuleProblem {
  let compiled: Pattern;
  try {
    compiled = compilePattern(rule.pattern);
  } catch (error) {
    return { rule: index, field: "pattern", message: `the pattern cannot be used: ${messageOf(error)}` };
  }
  const wrong = templateProblem(rule.template, compiled.groups);
  return wrong === undefined ? { ...rule, index, compiled } : { rule: index, field: "template", message: wrong };
}

function templateProblem(template: string, groups: number): string | undefined {
  const missing = groupsIn(template).find(group => group > groups);
  if (missing === undefined) return undefined;
  return `the template names group ${missing}, but the pattern has ${groups === 0 ? "no groups" : `only ${groups}`}`;
}

/** The topology of a main file, compiled. Throws "failed-precondition" that lists every wrong rule. */
export function compileTopology(config: TopologyConfig): CompiledTopology {
  if (config.kind !== "rules") return config;
  const { rules, problems } = compileRules(config.rules);
  if (problems.length === 0) return { kind: "rules", prefix: config.prefix, rules };
  const lines = problems.map(({ rule, message }) => `rule ${rule + 1} (key "${config.rules[rule]?.key}"): ${message}`);
  throw new CsiError("failed-precondition", `proxy.nodeTopology cannot be used: ${lines.join("; ")}`);
}
