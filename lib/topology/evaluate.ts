import type { Segments } from "../core/access.ts";
import { CsiError } from "../core/errors.ts";
import type { RuleSource } from "./config.ts";
import { type NodeFacts, nodeNameOf } from "./facts.ts";
import { isLabelValue, quoted, whyNoValue } from "./labels.ts";
import { filled } from "./pattern.ts";
import type { CompiledRule, CompiledTopology } from "./rules.ts";

/** The result of one rule on one node. */
export interface RuleOutcome {
  readonly rule: CompiledRule;
  /** The text that the pattern was matched against; undefined if there was none. */
  readonly input: string | undefined;
  /** Whether the pattern matched. */
  readonly applied: boolean;
  /** The value that the rule gives, possibly its default. */
  readonly value: string | undefined;
  /** In words. */
  readonly reason: string;
}

/** What a node reports, and why. */
export interface Evaluation {
  /** Empty if `failure` is set. */
  readonly segments: Segments;
  /** In the order of the rules; empty without rules. */
  readonly outcomes: readonly RuleOutcome[];
  /** Why the node cannot register. */
  readonly failure: CsiError | undefined;
}

/** The longest input, in UTF-16 units. */
const maxInput = 16 * 1024;

/** Evaluates the topology of one node. A CsiError is returned in `failure`, with the results of the rules so far. */
export async function evaluate(topology: CompiledTopology, facts: NodeFacts): Promise<Evaluation> {
  const outcomes: RuleOutcome[] = [];
  try {
    const segments = await segmentsFor(topology, facts, outcomes);
    return { segments, outcomes, failure: undefined };
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    return { segments: {}, outcomes, failure: error };
  }
}

async function segmentsFor(topology: CompiledTopology, facts: NodeFacts, outcomes: RuleOutcome[]): Promise<Segments> {
  const { prefix } = topology;
  if (topology.kind !== "rules") {
    const own = topology.kind === "cluster" ? "local" : ownValue(nodeNameOf(facts));
    return { [`${prefix}/${topology.kind}`]: own };
  }
  for (const rule of topology.rules) outcomes.push(await outcome(rule, facts));
  return collected(prefix, outcomes);
}

/** The node's name as its topology. Throws "failed-precondition" if it is not a valid label value. */
export function ownValue(nodeName: string): string {
  if (isLabelValue(nodeName)) return nodeName;
  const text = `the node's name cannot be its topology: ${whyNoValue(nodeName)}; use type zone with a rule that shortens it`;
  throw new CsiError("failed-precondition", text);
}

async function outcome(rule: CompiledRule, facts: NodeFacts): Promise<RuleOutcome> {
  const input = await inputOf(rule.source, facts);
  if (input === undefined) return ignored(rule, undefined, `${sourceInWords(rule.source)} is not there`);
  if (input.length > maxInput)
    throw refused(rule, `${sourceInWords(rule.source)} has ${input.length} characters; the limit is ${maxInput}`);
  const groups = rule.compiled.match(input);
  if (!groups) return ignored(rule, input, mismatch(rule, input));
  const value = filled(rule.template, groups);
  // The Downward API writes an empty text for a missing label.
  if (value === "" && rule.fallback !== undefined)
    return ignored(rule, input, `the value of ${sourceInWords(rule.source)} is empty`);
  if (!isLabelValue(value)) throw refused(rule, whyNoValue(value));
  return { rule, input, applied: true, value, reason: "matched" };
}

const mismatch = ({ pattern, compiled }: CompiledRule, input: string): string =>
  compiled.finds(input)
    ? `${pattern} matches only a part of ${quoted(input)}, and must match the whole`
    : `${quoted(input)} does not match ${pattern}`;

async function inputOf(source: RuleSource, facts: NodeFacts): Promise<string | undefined> {
  if (!("name" in source)) return source.kind === "nodeName" ? nodeNameOf(facts) : facts.hostname;
  if (source.kind === "env") return facts.env(source.name);
  if (source.kind === "nodeLabel") return facts.label(source.name);
  const text = await facts.file(source.name);
  return text === undefined ? undefined : withoutTail(text);
}

/** Removes spaces and line breaks from the end. A regular expression would take seconds for a file full of spaces. */
function withoutTail(text: string): string {
  let end = text.length;
  while (end > 0 && " \t\r\n".includes(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}

function sourceInWords(source: RuleSource): string {
  if (!("name" in source)) return source.kind === "nodeName" ? "the node's name" : "the host name";
  const words = { env: "variable", file: "file", nodeLabel: "node label" } as const;
  return `${words[source.kind]} ${source.name}`;
}

const ignored = (rule: CompiledRule, input: string | undefined, why: string): RuleOutcome => ({
  rule,
  input,
  applied: false,
  value: rule.fallback,
  reason: rule.fallback === undefined ? why : `${why}; using the default`,
});

const refused = (rule: CompiledRule, why: string): CsiError =>
  new CsiError("failed-precondition", `topology rule ${rule.index + 1} (key "${rule.key}"): ${why}`);

/** The value of a key is that of the last rule that matched; if none did, the last default. */
function collected(prefix: string, outcomes: readonly RuleOutcome[]): Segments {
  const values = new Map<string, string>();
  for (const applied of [false, true]) {
    for (const { rule, value } of outcomes.filter(each => each.applied === applied)) {
      if (value !== undefined) values.set(rule.key, value);
    }
  }
  for (const { rule, input } of outcomes) {
    // Labels are often set after the node has joined, and a node that registered without a key does not get it later.
    if (rule.source.kind === "nodeLabel" && input === undefined && !values.has(rule.key))
      throw refused(rule, `this node has no label ${rule.source.name} yet; label the node, or give the rule a default`);
  }
  if (values.size === 0) throw new CsiError("failed-precondition", nothing(outcomes));
  return Object.fromEntries(
    outcomes.flatMap(({ rule: { key } }) => (values.has(key) ? [[`${prefix}/${key}`, values.get(key) ?? ""]] : [])),
  );
}

const nothing = (outcomes: readonly RuleOutcome[]): string =>
  `no topology rule applies to this node: ${outcomes.map(({ rule, reason }) => `${rule.key}: ${reason}`).join("; ")}`;
