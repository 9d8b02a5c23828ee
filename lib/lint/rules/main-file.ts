import { main, type Rule, zones } from "./rule.ts";

const rule = (text: string): string => `  nodeTopology:\n    type: zone\n    fromRegexp:\n${text}`;

/** Rules about the main file alone. */
export const mainFile: readonly Rule[] = [
  {
    id: "mixed-spellings",
    severity: "warning",
    title: "Topology rules use one spelling",
    why: "Two spellings exist (topologyKey, regex, template; keySuffix, matchRegexp, resultTemplate). Both work; a mixture was put together from two sources and is easily misread.",
    bad: { "proxy.yaml": main(rule("      - { topologyKey: zone, source: nodeName, matchRegexp: '(.*)' }\n")) },
    good: { "proxy.yaml": main(rule("      - { topologyKey: zone, source: nodeName, regex: '(.*)' }\n")) },
  },
  {
    id: "rules-without-effect",
    severity: "warning",
    title: "Topology rules need type zone",
    why: "With type cluster or node, nodes report something else and the rules are never looked at.",
    bad: { "proxy.yaml": main("  nodeTopology:\n    fromRegexp:\n      - { topologyKey: zone, source: nodeName }\n") },
    good: { "proxy.yaml": main(rule("      - { topologyKey: zone, source: nodeName }\n")) },
  },
  {
    id: "unknown-placeholder",
    severity: "error",
    title: "Templates use {match:N} only",
    why: "Anything else in braces would become part of a node's label, which Kubernetes refuses.",
    bad: { "proxy.yaml": main(rule("      - { topologyKey: zone, source: nodeName, template: 'z-${ZONE}' }\n")) },
    good: { "proxy.yaml": main(rule("      - { topologyKey: zone, source: nodeName, template: 'z-{match:0}' }\n")) },
  },
  {
    id: "topology-gap",
    severity: "warning",
    title: "Every node reports every key",
    why: "Kubernetes expects the same keys from all nodes. On a node to which no rule applies, volumes cannot be scheduled.",
    bad: { "proxy.yaml": main(rule("      - { topologyKey: zone, source: env, envName: ZONE }\n")) },
    good: { "proxy.yaml": main(zones) },
  },
  {
    id: "topology-pattern",
    severity: "error",
    title: "Patterns are valid and have the groups that templates use",
    why: "A node plugin with a rule that cannot be evaluated does not start.",
    bad: {
      "proxy.yaml": main(
        rule("      - { topologyKey: zone, source: nodeName, regex: '(.*)', template: '{match:2}' }\n"),
      ),
    },
    good: {
      "proxy.yaml": main(
        rule("      - { topologyKey: zone, source: nodeName, regex: '(.*)', template: '{match:1}' }\n"),
      ),
    },
  },
  {
    id: "reserved-prefix",
    severity: "error",
    title: "The prefix is not one of Kubernetes' own",
    why: "Kubernetes keeps nodes from setting most labels below kubernetes.io and k8s.io, so they would not register. With exactly the cluster's zone and region it may work, and is a warning.",
    bad: { "proxy.yaml": main("  nodeTopology: { type: node, prefix: topology.kubernetes.io }\n") },
    good: { "proxy.yaml": main("  nodeTopology: { type: node, prefix: topology.example.org }\n") },
  },
  {
    id: "node-id-without-prefixes",
    severity: "warning",
    title: "IQN and NQN in node ids are shortened",
    why: "A node id has 256 bytes; without a table of prefixes the whole name goes into it.",
    bad: { "proxy.yaml": main("  nodeId: { parts: { iqn: true } }\n") },
    good: {
      "proxy.yaml": main(
        "  nodeId: { parts: { iqn: true }, iqnPrefix: [{ shortName: '1', prefix: 'iqn.2005-03.org.open-iscsi:' }] }\n",
      ),
    },
  },
];
