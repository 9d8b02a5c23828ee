import { hostpath, inZone, main, nfs, type Rule, snapshotClass, storageClass, values, zones } from "./rule.ts";

const withClass = (bad: string, good: string): Pick<Rule, "bad" | "good"> => ({
  bad: { "c1.yaml": nfs(), "class.yaml": bad },
  good: { "c1.yaml": nfs(), "class.yaml": good },
});

const plain = storageClass("  connection: c1\n");
const allowed = (key: string, value: string): string =>
  storageClass(
    "  connection: c1\n",
    `allowedTopologies:\n  - matchLabelExpressions:\n      - key: ${key}\n        values: [${value}]\n`,
  );
const zoneKey = "org.democratic-csi.topology/zone";
const delayed = "volumeBindingMode: WaitForFirstConsumer\n";
const gate = '  externalProvisioner:\n    extraArgs: ["--feature-gates=Topology=true"]\n';
const localArgs = '"--feature-gates=Topology=true", "--strict-topology=true"';

const secret = (body: string): string =>
  `apiVersion: v1\nkind: Secret\nmetadata: { name: connections }\n${body}${nfs().replace(/^(?=.)/gm, "    ")}`;

/** Rules about Kubernetes objects and Helm values. */
export const cluster: readonly Rule[] = [
  {
    id: "secret-entry",
    severity: "error",
    title: "Entries of Secrets are files that csimux reads",
    why: "Kubernetes refuses text under data and mappings under stringData; csimux passes over names without .yaml or .yml.",
    bad: { "secret.yaml": secret("data:\n  c1.yaml: |\n") },
    good: { "secret.yaml": secret("stringData:\n  c1.yaml: |\n") },
  },
  {
    id: "class-without-connection",
    severity: "error",
    title: "A StorageClass names its connection",
    why: "Every claim of the class would fail.",
    bad: { "c1.yaml": nfs(), "class.yaml": `${plain}---\n${storageClass("  fsType: nfs\n")}` },
    good: { "c1.yaml": nfs(), "class.yaml": plain },
  },
  {
    id: "class-connection-missing",
    severity: "error",
    title: "Classes name connections that exist",
    why: "Every claim of the class would fail.",
    ...withClass(storageClass("  connection: c2\n"), plain),
  },
  {
    id: "parameter-not-text",
    severity: "error",
    title: "Parameters are text",
    why: "Kubernetes refuses a class whose parameters are numbers or booleans.",
    ...withClass(storageClass("  connection: c1\n  csi.storage.k8s.io/fstype: [nfs]\n"), plain),
  },
  {
    id: "parameter-value",
    severity: "error",
    title: "Parameters have values with a meaning",
    why: "The original takes anything it does not understand for false or for the default.",
    ...withClass(
      snapshotClass("  connection: c1\n  driver: filecpy\n"),
      snapshotClass("  connection: c1\n  driver: filecopy\n"),
    ),
  },
  {
    id: "parameter-without-effect",
    severity: "warning",
    title: "Parameters fit the driver",
    why: "The driver of this connection never looks at the parameter.",
    bad: { "c1.yaml": "driver: node-manual\n", "class.yaml": snapshotClass("  connection: c1\n  driver: filecopy\n") },
    good: { "c1.yaml": nfs(), "class.yaml": snapshotClass("  connection: c1\n  driver: filecopy\n") },
  },
  {
    id: "unknown-parameter",
    severity: "error",
    title: "Parameters are known",
    why: "A mistyped parameter has no effect. One that resembles nothing known is only a warning: templates may use it.",
    ...withClass(storageClass("  connection: c1\n  fsTyp: nfs\n"), storageClass("  connection: c1\n  fsType: nfs\n")),
  },
  {
    id: "fstype-given-twice",
    severity: "error",
    title: "One name for the file system",
    why: "external-provisioner refuses a class with both names of the parameter.",
    ...withClass(
      storageClass("  connection: c1\n  fsType: nfs\n  csi.storage.k8s.io/fstype: nfs\n"),
      storageClass("  connection: c1\n  fsType: nfs\n"),
    ),
  },
  {
    id: "fstype-impossible",
    severity: "error",
    title: "The driver can make the file system",
    why: "Every claim of the class would fail.",
    ...withClass(storageClass("  connection: c1\n  fsType: ext4\n"), storageClass("  connection: c1\n  fsType: nfs\n")),
  },
  {
    id: "class-field",
    severity: "error",
    title: "Fields of classes have values that Kubernetes knows",
    why: "Kubernetes refuses the class.",
    ...withClass(
      storageClass("  connection: c1\n", "reclaimPolicy: Keep\n"),
      storageClass("  connection: c1\n", "reclaimPolicy: Retain\n"),
    ),
  },
  {
    id: "class-binding",
    severity: "warning",
    title: "Local drivers bind late",
    why: "With immediate binding the volume's node is chosen before the pod's, and the pod may not fit there.",
    bad: { "proxy.yaml": main("  nodeTopology: { type: node }\n"), "c1.yaml": hostpath, "class.yaml": plain },
    good: {
      "proxy.yaml": main("  nodeTopology: { type: node }\n"),
      "c1.yaml": hostpath,
      "class.yaml": storageClass("  connection: c1\n", delayed),
    },
  },
  {
    id: "class-expansion",
    severity: "error",
    title: "Only volumes that can grow may be asked to",
    why: "Claims accept a new size that no volume ever gets.",
    bad: {
      "c1.yaml": "driver: node-manual\n",
      "class.yaml": storageClass("  connection: c1\n", "allowVolumeExpansion: true\n"),
    },
    good: { "c1.yaml": nfs(), "class.yaml": storageClass("  connection: c1\n", "allowVolumeExpansion: true\n") },
  },
  {
    id: "class-topology",
    severity: "error",
    title: "allowedTopologies can be satisfied",
    why: "No node or no place of the connection fits, so every claim of the class stays pending.",
    bad: { "proxy.yaml": main(zones), "c1.yaml": inZone("z1"), "class.yaml": allowed(zoneKey, "z2") },
    good: { "proxy.yaml": main(zones), "c1.yaml": inZone("z1"), "class.yaml": allowed(zoneKey, "z1") },
  },
  {
    id: "helm-driver-name",
    severity: "error",
    title: "Helm values name the driver",
    why: "The chart cannot be installed without.",
    bad: { "values.yaml": values("").replace("  name: org.example.csimux\n", "  attachRequired: true\n") },
    good: { "values.yaml": values("") },
  },
  {
    id: "helm-folder-not-mounted",
    severity: "error",
    title: "The connection folder is mounted",
    why: "The controller finds no connections.",
    bad: { "values.yaml": values("", "driver: { config: { driver: proxy, proxy: { configFolder: /elsewhere } } }\n") },
    good: {
      "values.yaml": values("", "driver: { config: { driver: proxy, proxy: { configFolder: /connections } } }\n"),
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
];
