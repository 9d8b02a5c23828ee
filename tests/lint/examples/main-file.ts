import { type Examples, main, zoneRules, zones } from "./files.ts";

/** Examples of the rules in lib/lint/rules/main-file.ts. */
export const mainFile: Examples = {
  "rules-without-effect": {
    bad: { "proxy.yaml": main("  nodeTopology:\n    fromRegexp:\n      - { topologyKey: zone, source: nodeName }\n") },
    good: { "proxy.yaml": main(zoneRules("      - { topologyKey: zone, source: nodeName }\n")) },
  },
  "unknown-placeholder": {
    bad: { "proxy.yaml": main(zoneRules("      - { topologyKey: zone, source: nodeName, template: 'z-${ZONE}' }\n")) },
    good: {
      "proxy.yaml": main(zoneRules("      - { topologyKey: zone, source: nodeName, template: 'z-{match:0}' }\n")),
    },
  },
  "topology-gap": {
    bad: { "proxy.yaml": main(zoneRules("      - { topologyKey: zone, source: env, envName: ZONE }\n")) },
    good: { "proxy.yaml": main(zones) },
  },
  "topology-pattern": {
    bad: {
      "proxy.yaml": main(
        zoneRules("      - { topologyKey: zone, source: nodeName, regex: '(.*)', template: '{match:2}' }\n"),
      ),
    },
    good: {
      "proxy.yaml": main(
        zoneRules("      - { topologyKey: zone, source: nodeName, regex: '(.*)', template: '{match:1}' }\n"),
      ),
    },
  },
  "reserved-prefix": {
    bad: { "proxy.yaml": main("  nodeTopology: { type: node, prefix: topology.kubernetes.io }\n") },
    good: { "proxy.yaml": main("  nodeTopology: { type: node, prefix: topology.example.org }\n") },
  },
};
