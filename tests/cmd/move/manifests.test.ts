import { describe, expect, test } from "bun:test";
import { byTenths } from "../../../cmd/cluster/move/copy.ts";
import { claimManifest, volumeManifest } from "../../../cmd/cluster/move/objects/manifests.ts";
import { quantityBytes, quantityText } from "../../../cmd/cluster/move/objects/objects.ts";
import { createParameters } from "../../../cmd/cluster/move/objects/secrets.ts";
import { moveOptions } from "../../../cmd/cluster/move/options.ts";

const claim = {
  metadata: {
    ...{
      namespace: "shop",
      name: "data-db-0",
      uid: "1f0c",
      resourceVersion: "7",
      finalizers: ["kubernetes.io/pvc-protection"],
    },
    labels: { app: "db" },
    annotations: {
      "pv.kubernetes.io/bind-completed": "yes",
      "pv.kubernetes.io/bound-by-controller": "yes",
      "volume.beta.kubernetes.io/storage-provisioner": "csimux.storage",
      "volume.kubernetes.io/storage-provisioner": "csimux.storage",
      "volume.beta.kubernetes.io/storage-class": "slow",
      "volume.kubernetes.io/selected-node": "w1",
      "kubectl.kubernetes.io/last-applied-configuration": "{}",
      "backup.example.org/keep": "7d",
    },
    ownerReferences: [{ kind: "StatefulSet", name: "db" }],
  },
  spec: {
    accessModes: ["ReadWriteOnce"],
    resources: { requests: { storage: "20Gi" } },
    storageClassName: "slow",
    volumeMode: "Filesystem",
    volumeName: "pvc-1f0c",
    dataSource: { kind: "PersistentVolumeClaim", name: "before" },
    dataSourceRef: { kind: "PersistentVolumeClaim", name: "before" },
  },
  status: { phase: "Bound" },
};

const old = {
  metadata: {
    name: "pvc-1f0c",
    labels: { team: "shop", "topology.kubernetes.io/zone": "a" },
    annotations: {
      "pv.kubernetes.io/provisioned-by": "csimux.storage",
      "csimux.storage/move": "{}",
      "volume.kubernetes.io/provisioner-deletion-secret-name": "old",
      "cost.example.org/centre": "7",
    },
  },
  spec: {
    capacity: { storage: "20Gi" },
    csi: { fsType: "ext4", volumeHandle: "v:a/pvc-1f0c", driver: "csimux.storage" },
    mountOptions: ["old"],
  },
};

const fast = {
  metadata: { name: "fast" },
  provisioner: "csimux.storage",
  mountOptions: ["noatime"],
  parameters: {
    connection: "b",
    "csi.storage.k8s.io/node-stage-secret-name": "chap-${pvc.name}",
    "csi.storage.k8s.io/node-stage-secret-namespace": "${pvc.namespace}",
    "csi.storage.k8s.io/provisioner-secret-name": "${pv.name}",
    "csi.storage.k8s.io/provisioner-secret-namespace": "storage",
  },
};

const volume = {
  handle: "v:b/moved-1f0c-1",
  bytes: 21474836480n,
  context: { node_attach_driver: "iscsi" },
  topology: [{ "csimux.storage/zone": "z1" }],
};
const sources = { name: "moved-1f0c-1", claim, old, toClass: fast, volume };

describe("the manifests of a move", () => {
  test("the claim keeps what users said of it, and loses what says something about the old volume", () => {
    expect(claimManifest(claim, "fast", "moved-1f0c-1")).toEqual({
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: {
        ...{ namespace: "shop", name: "data-db-0", labels: { app: "db" } },
        annotations: { "backup.example.org/keep": "7d" },
        ownerReferences: [{ kind: "StatefulSet", name: "db" }],
      },
      spec: {
        ...{ storageClassName: "fast", volumeName: "moved-1f0c-1", accessModes: ["ReadWriteOnce"] },
        ...{ volumeMode: "Filesystem", resources: { requests: { storage: "20Gi" } } },
      },
    });
  });

  test("the volume has size, modes and file system of the old one, and secrets, mount options and places of the new class", () => {
    expect(volumeManifest(sources)).toEqual({
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: {
        name: "moved-1f0c-1",
        labels: { team: "shop" },
        annotations: {
          "cost.example.org/centre": "7",
          "pv.kubernetes.io/provisioned-by": "csimux.storage",
          "volume.kubernetes.io/provisioner-deletion-secret-name": "moved-1f0c-1",
          "volume.kubernetes.io/provisioner-deletion-secret-namespace": "storage",
        },
      },
      spec: {
        storageClassName: "fast",
        persistentVolumeReclaimPolicy: "Retain",
        capacity: { storage: "20Gi" },
        accessModes: ["ReadWriteOnce"],
        volumeMode: "Filesystem",
        mountOptions: ["noatime"],
        claimRef: { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace: "shop", name: "data-db-0" },
        csi: {
          ...{ driver: "csimux.storage", volumeHandle: "v:b/moved-1f0c-1", fsType: "ext4" },
          volumeAttributes: { node_attach_driver: "iscsi" },
          nodeStageSecretRef: { name: "chap-data-db-0", namespace: "shop" },
        },
        nodeAffinity: {
          required: {
            nodeSelectorTerms: [{ matchExpressions: [{ key: "csimux.storage/zone", operator: "In", values: ["z1"] }] }],
          },
        },
      },
    });
  });

  test("a storage that does not know the size gets that of the old volume; a raw block device has no file system", () => {
    const block = { ...claim, spec: { ...claim.spec, volumeMode: "Block" } };
    const { spec } = volumeManifest({ ...sources, claim: block, volume: { ...volume, bytes: 0n, topology: [] } });
    expect(spec).toMatchObject({ capacity: { storage: "20Gi" }, volumeMode: "Block" });
    expect(spec).not.toHaveProperty("nodeAffinity");
    expect(spec).not.toHaveProperty("csi.fsType");
  });

  test.each([
    ["${pvc.annotations['team/secret']}", "storage", "smb-7"],
    ["${pvc.namespace}-smb", "${pvc.namespace}", "shop-smb"],
  ])("the secret %s in %s is resolved as the provisioner does", (name, namespace, text) => {
    const parameters = { "csi.storage.k8s.io/secret-name": name, "csi.storage.k8s.io/secret-namespace": namespace };
    const annotated = { ...claim, metadata: { ...claim.metadata, annotations: { "team/secret": "smb-7" } } };
    const { spec } = volumeManifest({ ...sources, claim: annotated, toClass: { ...fast, parameters } });
    expect(spec).toMatchObject({
      csi: { nodePublishSecretRef: { name: text }, controllerExpandSecretRef: { name: text } },
    });
  });

  test.each([
    ["an unknown name", "${pvc.uid}", "storage"],
    ["a namespace that the owner of the claim could choose", "a", "${pvc.annotations['team/secret']}"],
    ["a namespace by the claim's name", "a", "${pvc.name}"],
    ["a path", "../a", "storage"],
    ["a flag", "--all", "storage"],
    ["an empty one", "", "storage"],
    ["one without its namespace", "a", undefined],
    ["a dollar sign", "a$b", "storage"],
  ])("a secret of the class is refused: %s", (_, name, namespace) => {
    const own = { "csi.storage.k8s.io/node-stage-secret-name": name };
    const parameters =
      namespace === undefined ? own : { ...own, "csi.storage.k8s.io/node-stage-secret-namespace": namespace };
    expect(() => volumeManifest({ ...sources, toClass: { ...fast, parameters } })).toThrow(
      "the class names no secret with",
    );
  });

  test("CreateVolume gets the class's own parameters and the names of claim and volume", () => {
    const place = { namespace: "shop", name: "data-db-0" };
    expect(createParameters(fast.parameters, { pv: "moved-1", claim: place })).toEqual({
      connection: "b",
      "csi.storage.k8s.io/pvc/name": "data-db-0",
      "csi.storage.k8s.io/pvc/namespace": "shop",
      "csi.storage.k8s.io/pv/name": "moved-1",
    });
  });
});

test.each([
  ["20Gi", 21474836480n],
  ["1.5Gi", 1610612736n],
  ["500M", 500_000_000n],
  ["1e9", 1_000_000_000n],
  ["12", 12n],
  ["0.1", 1n],
  ["100m", undefined],
  ["", undefined],
  ["-1", undefined],
  ["1Xi", undefined],
])("the quantity %s is %p bytes", (text, bytes) => {
  expect(quantityBytes(text)).toBe(bytes);
});

test.each([
  [20n << 30n, "20Gi"],
  [1610612736n, "1536Mi"],
  [1n << 60n, "1Ei"],
  [1000n, "1000"],
  [0n, "0"],
])("%p bytes are the quantity %s", (bytes, text) => {
  expect(quantityText(bytes)).toBe(text);
});

describe("the command line of csimux move", () => {
  test.each([
    ["no class", ["a"], {}, "needs --to-class"],
    ["no claim", [], { toClass: "fast" }, "name the claims, or give --from"],
    ["--all alone", [], { toClass: "fast", all: true as const }, "belong together"],
    ["--from alone", [], { toClass: "fast", from: "a" }, "belong together"],
    ["both", ["a"], { toClass: "fast", from: "a", all: true as const }, "not both"],
    ["a flag as a claim", ["--all"], { toClass: "fast" }, "is not the name of a claim"],
    ["a path as a claim", ["../a"], { toClass: "fast" }, "is not the name of a claim"],
    ["control characters", ["a\x1b[2J"], { toClass: "fast" }, '"a\\u001b[2J" is not the name'],
    ["a long name", ["a".repeat(254)], { toClass: "fast" }, "is not the name of a claim"],
    ["a wrong namespace", ["a"], { toClass: "fast", namespace: "-A" }, "--namespace must be"],
    ["a wrong class", ["a"], { toClass: "--all" }, "--to-class must be"],
    ["a wrong connection", [], { toClass: "fast", from: "../a", all: true as const }, "--from must be"],
    ["an empty kubectl", ["a"], { toClass: "fast", kubectl: " " }, "--kubectl is empty"],
  ])("%s is refused", (_, claims, flags, text) => {
    expect(() => moveOptions("copy", claims, flags)).toThrow(text);
  });

  test("the context and the configuration of kubectl are those of every command of kubectl", () => {
    const flags = { toClass: "fast", context: "prod", kubeconfig: "k.yaml" };
    const words = ["--context", "prod", "--kubeconfig", "k.yaml"];
    expect(moveOptions("copy", ["a"], flags).kubectl).toEqual(["kubectl", ...words]);
    expect(moveOptions("copy", ["a"], { ...flags, kubectl: "oc -v 1" }).kubectl).toEqual(["oc", "-v", "1", ...words]);
  });

  test("kubectl may have flags, and a claim named twice is meant once", () => {
    const options = moveOptions("copy", ["a", "a"], { toClass: "fast", kubectl: "kubectl --context x" });
    expect(options.kubectl).toEqual(["kubectl", "--context", "x"]);
    expect(options.what).toEqual({ namespace: "default", claims: ["a"] });
  });
});

test.each([
  [
    "a line for each tenth",
    [
      [0, 40],
      [3, 40],
      [4, 40],
      [7, 40],
      [30, 40],
      [40, 40],
    ],
    ["0/40", "4/40", "30/40", "40/40"],
  ],
  [
    "each change where the size is unknown",
    [
      [1, 0],
      [1, 0],
      [2, 0],
    ],
    ["1/0", "2/0"],
  ],
] as const)("the progress of a pass is %s", (_, events, lines) => {
  const told: string[] = [];
  const tell = byTenths(text => void told.push(text));
  for (const [done, total] of events)
    tell({ kind: "progress", text: `${done}/${total}`, done: BigInt(done), total: BigInt(total), rate: 0n });
  expect(told).toEqual([...lines]);
});
