import { type Examples, hostpath, inZone, main, nfs, zoneRules, zones } from "./files.ts";

/** Examples of the rules in lib/lint/rules/topology.ts. */
export const topology: Examples = {
  "extra-collides": {
    bad: {
      "c1.yaml": nfs(
        "proxy:\n  perDriver:\n    topology:\n      - requirements: { zone: z1 }\n        extra: { org.democratic-csi.topology/zone: z2 }\n",
      ),
    },
    good: { "c1.yaml": inZone("z1") },
  },
  "topology-not-configured": {
    bad: { "proxy.yaml": main(), "c1.yaml": inZone("z1") },
    good: { "proxy.yaml": main(zones), "c1.yaml": inZone("z1") },
  },
  "topology-key-unknown": {
    bad: { "proxy.yaml": main(zones), "c1.yaml": inZone("z1", "zoen") },
    good: { "proxy.yaml": main(zones), "c1.yaml": inZone("z1") },
  },
  "topology-value-unknown": {
    bad: {
      "proxy.yaml": main(zoneRules("      - { topologyKey: zone, source: nodeName, template: z1 }\n")),
      "c1.yaml": inZone("z2"),
    },
    good: {
      "proxy.yaml": main(zoneRules("      - { topologyKey: zone, source: nodeName, template: z1 }\n")),
      "c1.yaml": inZone("z1"),
    },
  },
  "local-needs-node-topology": {
    bad: { "proxy.yaml": main(), "c1.yaml": hostpath },
    good: { "proxy.yaml": main("  nodeTopology: { type: node }\n"), "c1.yaml": hostpath },
  },
};
