import { type Examples, hostpath, main, values, zones } from "./files.ts";

const gate = '  externalProvisioner:\n    extraArgs: ["--feature-gates=Topology=true"]\n';
const localArgs = '"--feature-gates=Topology=true", "--strict-topology=true"';

const propagated = ", mountPropagation: Bidirectional";
const local = (text: string) => ({
  "proxy.yaml": main("  nodeTopology: { type: node }\n"),
  "c1.yaml": hostpath,
  "values.yaml": text,
});
const localValues = values(
  `  strategy: node\n  externalProvisioner:\n    extraArgs: [${localArgs}, "--node-deployment=true"]\n`,
);

/** Examples of the rules in lib/lint/rules/helm.ts. */
export const helm: Examples = {
  "helm-folder-not-mounted": {
    bad: {
      "values.yaml": values("", "", "driver: { config: { driver: proxy, proxy: { configFolder: /elsewhere } } }\n"),
    },
    good: {
      "values.yaml": values("", "", "driver: { config: { driver: proxy, proxy: { configFolder: /connections } } }\n"),
    },
  },
  "helm-topology-gate": {
    bad: { "proxy.yaml": main(zones), "values.yaml": values("") },
    good: { "proxy.yaml": main(zones), "values.yaml": values(gate) },
  },
  "helm-local-driver": {
    bad: {
      "proxy.yaml": main("  nodeTopology: { type: node }\n"),
      "c1.yaml": hostpath,
      "values.yaml": values(`  externalProvisioner:\n    extraArgs: [${localArgs}, "--node-deployment=true"]\n`),
    },
    good: {
      "proxy.yaml": main("  nodeTopology: { type: node }\n"),
      "c1.yaml": hostpath,
      "values.yaml": values(
        `  strategy: node\n  externalProvisioner:\n    extraArgs: [${localArgs}, "--node-deployment=true"]\n`,
      ),
    },
  },
  "helm-capacity": {
    bad: {
      "proxy.yaml": main("  nodeTopology: { type: node }\n"),
      "c1.yaml": hostpath,
      "values.yaml": values(
        `  strategy: node\n  externalProvisioner:\n    extraArgs: [${localArgs}, "--node-deployment=true", "--enable-capacity=true"]\n`,
      ),
    },
    good: {
      "proxy.yaml": main("  nodeTopology: { type: node }\n"),
      "c1.yaml": hostpath,
      "values.yaml": values(
        `  strategy: node\n  externalProvisioner:\n    extraArgs: [${localArgs}, "--node-deployment=true", "--enable-capacity=true"]\n`,
        "  storageCapacity: true\n",
      ),
    },
  },
  "helm-config": {
    bad: { "values.yaml": values("", "", "driver: { config: { driver: proxy } }\n") },
    good: { "values.yaml": values("") },
  },
  "helm-image": {
    bad: { "values.yaml": values("").replace(/node:\n {2}driver:\n.*\n/, "node:\n  driver:\n") },
    good: { "values.yaml": values("") },
  },
  "helm-iscsiadm": {
    bad: {
      "values.yaml": values("").replace(
        "node:\n  driver:\n",
        "node:\n  driver:\n    extraEnv: [{ name: ISCSIADM_HOST_STRATEGY, value: nsenter }]\n",
      ),
    },
    good: { "values.yaml": values("") },
  },
  "helm-local-volume": {
    bad: local(localValues.replace(propagated, "")),
    good: local(localValues),
  },
};
