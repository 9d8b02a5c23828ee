import { hostpath, main, type Rule, values, zones } from "./rule.ts";

const gate = '  externalProvisioner:\n    extraArgs: ["--feature-gates=Topology=true"]\n';
const localArgs = '"--feature-gates=Topology=true", "--strict-topology=true"';

const mounted = "      - { name: connections, mountPath: /connections }\n";
const propagated = ", mountPropagation: Bidirectional";
const local = (text: string) => ({
  "proxy.yaml": main("  nodeTopology: { type: node }\n"),
  "c1.yaml": hostpath,
  "values.yaml": text,
});
const localValues = values(
  `  strategy: node\n  externalProvisioner:\n    extraArgs: [${localArgs}, "--node-deployment=true"]\n`,
);

/** Rules about values of the Helm chart. */
export const helm: readonly Rule[] = [
  {
    id: "helm-driver-name",
    severity: "error",
    title: "Helm values name the driver",
    why: "The chart cannot be installed without.",
    bad: { "values.yaml": values("").replace("  name: org.example.csimux\n", "") },
    good: { "values.yaml": values("") },
  },
  {
    id: "helm-folder-not-mounted",
    severity: "error",
    title: "The connection folder is mounted",
    why: "The controller finds no connections.",
    bad: {
      "values.yaml": values("", "", "driver: { config: { driver: proxy, proxy: { configFolder: /elsewhere } } }\n"),
    },
    good: {
      "values.yaml": values("", "", "driver: { config: { driver: proxy, proxy: { configFolder: /connections } } }\n"),
    },
  },
  {
    id: "helm-topology-gate",
    severity: "error",
    title: "external-provisioner knows of topology",
    why: "The chart's external-provisioner 3.x ignores topology unless told otherwise.",
    bad: { "proxy.yaml": main(zones), "values.yaml": values("") },
    good: { "proxy.yaml": main(zones), "values.yaml": values(gate) },
  },
  {
    id: "helm-local-driver",
    severity: "error",
    title: "Local drivers run a controller on every node",
    why: "One central controller would make every volume on its own node.",
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
  {
    id: "helm-capacity",
    severity: "warning",
    title: "Capacity tracking is switched on at both ends",
    why: "The scheduler reads capacity only when the CSIDriver object says so, and only the sidecar's flag makes it exist.",
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
  {
    id: "helm-key",
    severity: "error",
    title: "Values have the keys and types of the chart",
    why: "Helm passes over keys that a chart does not know, and what they should have set keeps its default.",
    bad: { "values.yaml": values("  extraVolume: []\n").replace("  extraVolumes:", "  extraVolumez:") },
    good: { "values.yaml": values("") },
  },
  {
    id: "helm-config",
    severity: "error",
    title: "The chart gets a main file",
    why: "Neither the controller nor the nodes start without.",
    bad: { "values.yaml": values("", "", "driver: { config: { driver: proxy } }\n") },
    good: { "values.yaml": values("") },
  },
  {
    id: "helm-image",
    severity: "error",
    title: "Controller and nodes run the image of csimux",
    why: "The chart's own image is democratic-csi, which knows neither connections nor their handles.",
    bad: { "values.yaml": values("").replace(/node:\n {2}driver:\n.*\n/, "node:\n  driver:\n") },
    good: { "values.yaml": values("") },
  },
  {
    id: "helm-volume",
    severity: "error",
    title: "Mounts have their volumes",
    why: "Kubernetes refuses the pod.",
    bad: { "values.yaml": values("").replace(mounted, mounted.replace("connections", "conections")) },
    good: { "values.yaml": values("") },
  },
  {
    id: "helm-local-volume",
    severity: "error",
    title: "Folders of the node are mounted into the node's container, both ways",
    why: "Pods are shown an empty folder otherwise, or none.",
    bad: local(localValues.replace(propagated, "")),
    good: local(localValues),
  },
];
