import { commonSchema } from "../../config/common.ts";
import { ownKeys } from "../../config/proxy.ts";
import { failure, type Path, problem, type SchemaFinding, warning } from "../../schema/finding.ts";
import { unknownKeysIn } from "../../schema/merge.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import type { RuleConfig, TopologyConfig } from "../../topology/config.ts";
import type { PatternCompiler } from "../../topology/pattern.ts";
import { compileRules } from "../../topology/rules.ts";
import { type LintInput, listAt, type MainFile, mappingAt, textAt } from "../lint-input.ts";
import type { DocumentFinding } from "../source-document.ts";

/** Rules about the main file alone. */
export function* mainFile({ main, compile, modules }: LintInput): Iterable<DocumentFinding> {
  if (!main) return;
  const { leaf } = main;
  const findings = [
    ...spellings(main),
    ...idleRules(main),
    ...nodeIds(main),
    ...reserved(main),
    ...templates(main),
    ...(main.read.config?.single === undefined ? defaults(main, modules) : []),
  ];
  for (const finding of findings) yield { leaf, finding };
  const topology = main.read.partial?.nodeTopology;
  if (topology?.kind === "rules") for (const finding of gaps(main, topology)) yield { leaf, finding };
  if (topology === undefined || topology.kind === "rules")
    for (const finding of patterns(main, topology?.rules ?? writtenRules(main), compile)) yield { leaf, finding };
}

/** Keys outside `proxy:` are defaults for connections; one that no driver has is a mistake. */
function* defaults(main: MainFile, modules: LintInput["modules"]): Iterable<SchemaFinding> {
  const values = Object.entries(mappingAt(main.leaf.source.value)).filter(
    ([key]) => !ownKeys.has(key) && key !== "node",
  );
  const schemas = [commonSchema, ...modules.map(({ schema }) => schema)];
  for (const { path, known } of unknownKeysIn(schemas, Object.fromEntries(values))) {
    const key = String(path.at(-1));
    const near = nearest(key, known);
    const fix = near ? meant(near) : "remove it";
    yield problem("unknown-key", path, `unknown key "${key}": no driver could inherit it`, fix, "key");
  }
}

const pairs = [
  ["topologyKey", "keySuffix"],
  ["regex", "matchRegexp"],
  ["template", "resultTemplate"],
] as const;

/** Where the list of rules stands, whichever way it is spelled. */
const listName = (main: MainFile): "fromRegexp" | "customRules" =>
  listAt(main.proxy, "nodeTopology", "fromRegexp").length > 0 ? "fromRegexp" : "customRules";

const rulesOf = (main: MainFile): readonly (readonly [Path, unknown])[] => {
  const name = listName(main);
  return listAt(main.proxy, "nodeTopology", name).map((rule, index) => [["proxy", "nodeTopology", name, index], rule]);
};

/** Both spellings work; a file that mixes them was put together from two sources. */
function* spellings(main: MainFile): Iterable<SchemaFinding> {
  const rules = rulesOf(main);
  const uses = (key: string) => rules.find(([, rule]) => textAt(rule, key) !== undefined);
  const documented = pairs.map(([key]) => key).find(key => uses(key));
  const example = pairs.map(([, key]) => key).find(key => uses(key));
  if (documented === undefined || example === undefined) return;
  const path = [...(uses(example)?.[0] ?? []), example];
  yield warning(
    "mixed-spellings",
    path,
    `"${example}" and "${documented}" belong to two spellings of the same rules`,
    "use one of them throughout",
    "key",
  );
}

function* idleRules(main: MainFile): Iterable<SchemaFinding> {
  const type = textAt(main.proxy, "nodeTopology", "type") ?? "cluster";
  if (rulesOf(main).length === 0 || type === "zone" || type === "custom") return;
  const path = ["proxy", "nodeTopology", listName(main)];
  yield warning("rules-without-effect", path, `rules have no effect with type "${type}"`, 'write "type: zone"', "key");
}

function* nodeIds(main: MainFile): Iterable<SchemaFinding> {
  for (const [part, list] of [
    ["iqn", "iqnPrefix"],
    ["nqn", "nqnPrefix"],
  ] as const) {
    const parts = mappingAt(main.proxy, "nodeId", "parts");
    if (parts[part] !== true || listAt(main.proxy, "nodeId", list).length > 0) continue;
    const message = `without "${list}" the whole ${part.toUpperCase()} goes into node ids, which may pass 256 bytes`;
    yield warning(
      "node-id-without-prefixes",
      ["proxy", "nodeId", "parts", part],
      message,
      `add "nodeId.${list}"`,
      "key",
    );
  }
}

/** Labels that kubelet may set and the cluster sets itself (NodeRestriction in the Kubernetes documentation). */
const clusterKeys: ReadonlySet<string> = new Set(["zone", "region"]);

/** Kubernetes keeps the keys below its own names for itself. */
function* reserved(main: MainFile): Iterable<SchemaFinding> {
  const prefix = textAt(main.proxy, "nodeTopology", "prefix") ?? "";
  if (!/(?:^|\.)(?:kubernetes|k8s)\.io$/.test(prefix)) return;
  const path = ["proxy", "nodeTopology", "prefix"];
  const keys = rulesOf(main).map(([, rule]) => textAt(rule, "topologyKey") ?? textAt(rule, "keySuffix") ?? "");
  const shared = prefix === "topology.kubernetes.io" && keys.length > 0 && keys.every(key => clusterKeys.has(key));
  const fix = "use a domain of your own, or leave the key out";
  if (shared) {
    const message = `${prefix}/${keys[0]} is a label of the cluster itself: where csimux reports another value, the node does not register`;
    yield warning("reserved-prefix", path, message, fix);
  } else {
    yield problem(
      "reserved-prefix",
      path,
      `labels below "${prefix}" belong to Kubernetes, which keeps nodes from setting them`,
      fix,
    );
  }
}

/** Two forms of the placeholder are understood; what else is in a template ends up in a label. */
function* templates(main: MainFile): Iterable<SchemaFinding> {
  for (const [path, rule] of rulesOf(main)) {
    for (const key of ["template", "resultTemplate"]) {
      const rest = (textAt(rule, key) ?? "").replace(/\$?\{match:[0-9]+\}/g, "");
      const odd = /\$?\{[^}]*\}?|[^A-Za-z0-9._-]+/.exec(rest);
      if (!odd) continue;
      const message = `"${odd[0]}" is no placeholder, and a node's label cannot hold it`;
      yield problem(
        "unknown-placeholder",
        [...path, key],
        message,
        "write {match:1} for the first group of the pattern",
      );
    }
  }
}

/** A key that some nodes report and others do not breaks scheduling on those that do not. */
function* gaps(main: MainFile, topology: TopologyConfig & { kind: "rules" }): Iterable<SchemaFinding> {
  const always = new Set(topology.rules.filter(appliesAlways).map(({ key }) => key));
  for (const [index, rule] of topology.rules.entries()) {
    if (always.has(rule.key) || topology.rules.findIndex(({ key }) => key === rule.key) !== index) continue;
    const message = `nodes to which no rule for "${rule.key}" applies report no such key, and volumes cannot be scheduled there`;
    const path = ["proxy", "nodeTopology", listName(main), index];
    yield warning("topology-gap", path, message, 'add "default: <value>" to one of its rules', "key");
  }
}

/** The patterns and templates of rules as they are written, where something else is wrong with the topology. */
const writtenRules = (main: MainFile): readonly RuleConfig[] =>
  rulesOf(main).map(([, rule]) => ({
    key: "",
    source: { kind: "nodeName" },
    pattern: textAt(rule, "regex") ?? textAt(rule, "matchRegexp") ?? "(.*)",
    template: textAt(rule, "template") ?? textAt(rule, "resultTemplate") ?? "{match:0}",
    fallback: undefined,
  }));

/** What the topology code itself says about its rules. */
function* patterns(main: MainFile, rules: readonly RuleConfig[], compile: PatternCompiler): Iterable<SchemaFinding> {
  const keys = { pattern: ["regex", "matchRegexp"], template: ["template", "resultTemplate"] } as const;
  for (const { rule, field, message } of compileRules(rules, compile).problems) {
    const path = ["proxy", "nodeTopology", listName(main), rule];
    const key = keys[field].find(each => textAt(main.proxy, ...path.slice(1), each) !== undefined);
    yield failure("topology-pattern", key === undefined ? path : [...path, key], message);
  }
}

/** Sources that are always there, or without which a node does not register at all. */
const certain: ReadonlySet<string> = new Set(["nodeName", "hostname", "nodeLabel"]);

const appliesAlways = (rule: RuleConfig): boolean =>
  rule.fallback !== undefined || (certain.has(rule.source.kind) && /^\(?\.[*+]\)?$/.test(rule.pattern));
