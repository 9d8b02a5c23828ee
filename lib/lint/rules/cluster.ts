import {
  hostpath,
  inZone,
  iscsi,
  main,
  nfs,
  type Rule,
  smb,
  snapshotClass,
  storageClass,
  values,
  volume,
  zones,
} from "./rule.ts";

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
const login =
  "  csi.storage.k8s.io/node-stage-secret-name: login\n  csi.storage.k8s.io/node-stage-secret-namespace: storage\n";

const secret = (body: string): string =>
  `apiVersion: v1\nkind: Secret\nmetadata: { name: connections }\n${body}${nfs().replace(/^(?=.)/gm, "    ")}`;

const csiDriver = (spec: string): string =>
  `apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: { name: org.example.csimux }\nspec: ${spec}\n`;
const controller = (sidecars: string): string =>
  `apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: csimux-controller }\nspec:\n  template:\n    spec:\n      containers:\n        - name: csimux\n          image: registry.example.org/csimux\n          args: [serve, --name=org.example.csimux, --mode=controller]\n${sidecars}`;
const attacher = "        - { name: attacher, image: registry.k8s.io/sig-storage/csi-attacher:v4.12.0 }\n";
const provisioner = (args: string): string =>
  `        - { name: provisioner, image: registry.k8s.io/sig-storage/csi-provisioner:v6.3.0, args: ["${args}"] }\n`;
const mounting = (name: string): string =>
  `${controller("          volumeMounts:\n            - { name: connections, mountPath: /connections }\n" + attacher)}      volumes:\n        - { name: connections, secret: { secretName: ${name} } }\n`;
const generating = (files: string): string =>
  `apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nsecretGenerator:\n  - name: connections\n    files: [${files}]\n`;
const disk = iscsi("[nas.example.org]");

/** Rules about Kubernetes objects. */
export const cluster: readonly Rule[] = [
  {
    id: "attach-required",
    severity: "error",
    title: "Disks are attached",
    why: "Kubernetes keeps a ReadWriteOnce volume on one node only where its driver has `attachRequired: true`, in the CSIDriver or in Helm values. Otherwise a pod that is replaced while its node is away, or during a rolling update, mounts the disk on a second node, and both destroy its file system.",
    bad: { "c1.yaml": disk, "driver.yaml": csiDriver("{ attachRequired: false }") },
    good: { "c1.yaml": disk, "driver.yaml": csiDriver("{ attachRequired: true }") },
  },
  {
    id: "attacher-missing",
    severity: "warning",
    title: "Whoever requires attaching runs csi-attacher",
    why: "Without csi-attacher nothing confirms that a volume is attached, and pods wait for it forever. `attachRequired` is true where it is left out.",
    bad: { "c1.yaml": disk, "driver.yaml": `${csiDriver("{ attachRequired: true }")}---\n${controller("")}` },
    good: { "c1.yaml": disk, "driver.yaml": `${csiDriver("{ attachRequired: true }")}---\n${controller(attacher)}` },
  },
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
    id: "kubernetes-object",
    severity: "error",
    title: "Objects have the apiVersion and kind that Kubernetes knows",
    why: "Kubernetes refuses the object.",
    ...withClass(plain.replace("storage.k8s.io/v1", "storage.k8s.io/v1beta1"), plain),
  },
  {
    id: "class-name",
    severity: "error",
    title: "Classes have names of their own",
    why: "Kubernetes refuses names with capital letters, and of two classes with one name the second replaces the first.",
    ...withClass(plain.replace("name: fast", "name: Fast"), plain),
  },
  {
    id: "class-driver",
    severity: "error",
    title: "Classes name the driver",
    why: "Kubernetes refuses a class without; nobody serves one with another name. A name that is only nearly right is a warning.",
    bad: { "values.yaml": values(""), "class.yaml": plain.replace("org.example.csimux", "org.example.other") },
    good: { "values.yaml": values(""), "class.yaml": plain },
  },
  {
    id: "capacity-tracking",
    severity: "warning",
    title: "The free space is told and looked at",
    why: "kube-scheduler looks at free space where the CSIDriver has `storageCapacity: true`, and csi-provisioner tells it with `--enable-capacity=true`. With the first alone pods wait for a volume forever; the second alone has no effect.",
    bad: {
      "c1.yaml": nfs(),
      "driver.yaml": `${csiDriver("{ attachRequired: true, storageCapacity: true }")}---\n${controller(attacher + provisioner(""))}`,
    },
    good: {
      "c1.yaml": nfs(),
      "driver.yaml": `${csiDriver("{ attachRequired: true, storageCapacity: true }")}---\n${controller(attacher + provisioner("--enable-capacity=true"))}`,
    },
  },
  {
    id: "workload-secret",
    severity: "error",
    title: "The pod mounts the Secret with the connections",
    why: "A pod with another Secret finds no connections, and one whose Secret does not exist never starts.",
    bad: {
      "proxy.yaml": main(),
      "secret.yaml": secret("stringData:\n  c1.yaml: |\n"),
      "pod.yaml": mounting("conections"),
    },
    good: {
      "proxy.yaml": main(),
      "secret.yaml": secret("stringData:\n  c1.yaml: |\n"),
      "pod.yaml": mounting("connections"),
    },
  },
  {
    id: "kustomize-file-missing",
    severity: "error",
    title: "Every connection file is in the Secret",
    why: "kustomize puts only files into a Secret that `secretGenerator` names; csimux never sees the others.",
    bad: { "c1.yaml": nfs(), "c2.yaml": nfs("", "other.example.org"), "kustomization.yaml": generating("c1.yaml") },
    good: {
      "c1.yaml": nfs(),
      "c2.yaml": nfs("", "other.example.org"),
      "kustomization.yaml": generating("c1.yaml, c2.yaml"),
    },
  },
  {
    id: "class-suspended",
    severity: "warning",
    title: "A class leads to a connection that takes volumes",
    why: "A suspended connection gets no new volumes, so every claim of the class fails.",
    bad: { "c1.yaml": nfs("suspended: true\n"), "class.yaml": plain },
    good: { "c1.yaml": nfs(), "class.yaml": plain },
  },
  {
    id: "class-without-login",
    severity: "warning",
    title: "Classes name the secret that nodes mount with",
    why: "Nodes log in to SMB servers and object stores with what stands in this secret; few let anybody in without.",
    bad: { "c1.yaml": smb, "class.yaml": plain },
    good: { "c1.yaml": smb, "class.yaml": storageClass(`  connection: c1\n${login}`) },
  },
  {
    id: "parameter-pair",
    severity: "error",
    title: "Secrets are named with their namespace",
    why: "external-provisioner refuses a class with one of the two.",
    bad: { "c1.yaml": smb, "class.yaml": storageClass(`  connection: c1\n${login.split("\n")[0]}\n`) },
    good: { "c1.yaml": smb, "class.yaml": storageClass(`  connection: c1\n${login}`) },
  },
  {
    id: "mount-option-without-effect",
    severity: "warning",
    title: "Mount options fit what is mounted",
    why: "A folder of the node is shown to pods as it is; options of a file system reach nobody.",
    bad: {
      "c1.yaml": hostpath,
      "class.yaml": storageClass("  connection: c1\n", `${delayed}mountOptions: [nfsvers=4.1]\n`),
    },
    good: {
      "c1.yaml": hostpath,
      "class.yaml": storageClass("  connection: c1\n", `${delayed}mountOptions: [noatime]\n`),
    },
  },
  {
    id: "volume-handle",
    severity: "error",
    title: "PersistentVolumes have handles of csimux",
    why: "A volume with another handle cannot be grown or deleted, and csimux takes it for somebody else's.",
    bad: { "c1.yaml": nfs(), "class.yaml": plain, "pv.yaml": volume("c1/pvc-1") },
    good: { "c1.yaml": nfs(), "class.yaml": plain, "pv.yaml": volume("v:c1/pvc-1") },
  },
  {
    id: "volume-driver",
    severity: "error",
    title: "PersistentVolumes name the driver",
    why: "Kubernetes refuses the volume.",
    bad: { "c1.yaml": nfs(), "pv.yaml": volume("v:c1/pvc-1").replace("    driver: org.example.csimux\n", "") },
    good: { "c1.yaml": nfs(), "pv.yaml": volume("v:c1/pvc-1") },
  },
  {
    id: "volume-attributes",
    severity: "error",
    title: "Volumes that people describe say how they are attached",
    why: "Nodes know nothing else of such a volume.",
    bad: { "class.yaml": plain, "pv.yaml": volume("share-1", "node-manual") },
    good: { "class.yaml": plain, "pv.yaml": volume("share-1", "node-manual", "      node_attach_driver: nfs\n") },
  },
];
