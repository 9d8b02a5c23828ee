import type { Path } from "../../schema/finding.ts";
import type { RuleConfig, TopologyConfig } from "../../topology/config.ts";
import { compileRules } from "../../topology/rules.ts";
import { listAt, type MainDocument, textAt } from "../lint-input.ts";
import { error, type Found, report, rulesById, type Theme, warning } from "../rule.ts";

const rule = rulesById({
  "rules-without-effect": warning(
    "Topology rules need type zone",
    "With type cluster or node, nodes report something else and the rules are not used.",
  ),
  "unknown-placeholder": error(
    "Templates use {match:N} only",
    "Anything else in braces would become part of a node label, which Kubernetes refuses.",
  ),
  "topology-gap": warning(
    "Every node reports every key",
    "Kubernetes expects the same keys from all nodes. Volumes cannot be scheduled on a node to which no rule applies.",
  ),
  "topology-pattern": error(
    "Patterns are valid and have the groups that templates use",
    "A node plugin does not start with a rule that cannot be evaluated.",
  ),
  "reserved-prefix": error(
    "The prefix does not belong to Kubernetes",
    "Kubernetes refuses most labels below kubernetes.io and k8s.io from nodes, so they would not register. The cluster's own zone and region may work and are a warning.",
  ),
});

/** Rules about the main file alone. */
export const mainFile: Theme = {
  rules: Object.values(rule),
  *check(input) {
    const { main } = input;
    if (!main) return;
    yield* unusedRules(main);
    yield* prefixes(main);
    yield* templates(main);
    const topology = main.read.partial?.nodeTopology;
    if (topology?.kind === "rules") yield* gaps(main, topology);
    if (topology === undefined || topology.kind === "rules")
      yield* patterns(main, topology?.rules ?? uncheckedRules(main));
  },
};

const listName = ({ proxy }: MainDocument): "fromRegexp" | "customRules" =>
  listAt(proxy, "nodeTopology", "fromRegexp").length > 0 ? "fromRegexp" : "customRules";

const rulesOf = (main: MainDocument): readonly (readonly [Path, unknown])[] => {
  const name = listName(main);
  return listAt(main.proxy, "nodeTopology", name).map((rule, index) => [["proxy", "nodeTopology", name, index], rule]);
};

function* unusedRules(main: MainDocument): Found {
  const type = textAt(main.proxy, "nodeTopology", "type") ?? "cluster";
  if (rulesOf(main).length === 0 || type === "zone" || type === "custom") return;
  const path = ["proxy", "nodeTopology", listName(main)];
  const message = `rules have no effect with type "${type}"`;
  yield report(main.document, rule["rules-without-effect"], path, message, 'write "type: zone"', "key");
}

/** Labels that kubelet may set and the cluster sets itself (NodeRestriction in the Kubernetes documentation). */
const clusterKeys: ReadonlySet<string> = new Set(["zone", "region"]);

function* prefixes(main: MainDocument): Found {
  const prefix = textAt(main.proxy, "nodeTopology", "prefix") ?? "";
  if (!/(?:^|\.)(?:kubernetes|k8s)\.io$/.test(prefix)) return;
  const path = ["proxy", "nodeTopology", "prefix"];
  const keys = rulesOf(main).map(([, rule]) => textAt(rule, "topologyKey") ?? textAt(rule, "keySuffix") ?? "");
  const shared = prefix === "topology.kubernetes.io" && keys.length > 0 && keys.every(key => clusterKeys.has(key));
  const message = shared
    ? `${prefix}/${keys[0]} is a label of the cluster: a node for which csimux reports another value does not register`
    : `labels below "${prefix}" belong to Kubernetes, which refuses them from nodes`;
  const broken = { ...rule["reserved-prefix"], severity: shared ? "warning" : "error" } as const;
  yield report(main.document, broken, path, message, "use your own domain, or omit the key");
}

/** A placeholder has two forms; anything else in a template becomes part of a label. */
function* templates(main: MainDocument): Found {
  for (const [path, each] of rulesOf(main)) {
    for (const key of ["template", "resultTemplate"]) {
      const rest = (textAt(each, key) ?? "").replace(/\$?\{match:[0-9]+\}/g, "");
      const odd = /\$?\{[^}]*\}?|[^A-Za-z0-9._-]+/.exec(rest);
      if (!odd) continue;
      const message = `"${odd[0]}" is not a placeholder, and a node label cannot contain it`;
      const fix = "write {match:1} for the first group of the pattern";
      yield report(main.document, rule["unknown-placeholder"], [...path, key], message, fix);
    }
  }
}

function* gaps(main: MainDocument, topology: TopologyConfig & { kind: "rules" }): Found {
  const always = new Set(topology.rules.filter(appliesAlways).map(({ key }) => key));
  for (const [index, { key: reported }] of topology.rules.entries()) {
    if (always.has(reported) || topology.rules.findIndex(({ key }) => key === reported) !== index) continue;
    const message = `a node to which no rule for "${reported}" applies does not report this key, and volumes cannot be scheduled there`;
    const path = ["proxy", "nodeTopology", listName(main), index];
    yield report(
      main.document,
      rule["topology-gap"],
      path,
      message,
      'add "default: <value>" to one of its rules',
      "key",
    );
  }
}

/** Sources that always exist, or without which a node does not register at all. */
const certain: ReadonlySet<string> = new Set(["nodeName", "hostname", "nodeLabel"]);

const appliesAlways = (rule: RuleConfig): boolean =>
  rule.fallback !== undefined || (certain.has(rule.source.kind) && /^\(?\.[*+]\)?$/.test(rule.pattern));

/** The patterns and templates in the file, for a topology with other mistakes. */
const uncheckedRules = (main: MainDocument): readonly RuleConfig[] =>
  rulesOf(main).map(([, rule]) => ({
    key: "",
    source: { kind: "nodeName" },
    pattern: textAt(rule, "regex") ?? textAt(rule, "matchRegexp") ?? "(.*)",
    template: textAt(rule, "template") ?? textAt(rule, "resultTemplate") ?? "{match:0}",
    fallback: undefined,
  }));

/** Compiles the rules as a node does. */
function* patterns(main: MainDocument, rules: readonly RuleConfig[]): Found {
  const keys = { pattern: ["regex", "matchRegexp"], template: ["template", "resultTemplate"] } as const;
  for (const { rule: index, field, message } of compileRules(rules).problems) {
    const path = ["proxy", "nodeTopology", listName(main), index];
    const key = keys[field].find(each => textAt(main.proxy, ...path.slice(1), each) !== undefined);
    yield report(main.document, rule["topology-pattern"], key === undefined ? path : [...path, key], message);
  }
}
