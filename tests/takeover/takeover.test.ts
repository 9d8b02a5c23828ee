import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, parseAllDocuments, stringify } from "yaml";
import { build } from "../../scripts/build.ts";
import { below } from "../../scripts/check/below.ts";
import { root } from "../../scripts/spawned.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "csimux-takeover-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const out = () => join(folder, "out");
const read = (file: string) => readFileSync(join(out(), file), "utf8");

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly [key: string]: unknown;
}
const manifests = (file: string) => parseAllDocuments(read(file)).map(each => each.toJS() as Manifest);

/** Writes a file of values or manifests and answers its path. */
function given(name: string, value: unknown): string {
  const file = join(folder, name);
  writeFileSync(file, typeof value === "string" ? value : stringify(value));
  return file;
}

async function takeover(...args: readonly string[]) {
  const run = spawnSync(await build(), ["takeover", "--out", out(), ...args], { encoding: "utf8" });
  return { code: run.status, out: run.stdout, err: run.stderr };
}

const password = "correct-horse-battery";
const chap = "staple-staple-staple";

const nfs = {
  csiDriver: { name: "org.democratic-csi.nfs", fsGroupPolicy: "File" },
  storageClasses: [
    {
      name: "freenas-nfs-csi",
      defaultClass: true,
      reclaimPolicy: "Delete",
      volumeBindingMode: "Immediate",
      allowVolumeExpansion: true,
      parameters: { fsType: "nfs", detachedVolumesFromSnapshots: "false" },
      mountOptions: ["noatime", "nfsvers=4"],
      secrets: { "provisioner-secret": null, "controller-publish-secret": null, "node-stage-secret": null },
    },
  ],
  volumeSnapshotClasses: [{ name: "freenas-nfs-csi", secrets: { "snapshotter-secret": null } }],
  controller: { externalResizer: { enabled: false }, tolerations: [{ operator: "Exists" }] },
  driver: {
    config: {
      driver: "freenas-api-nfs",
      instance_id: null,
      httpConnection: { protocol: "http", host: "nas.lan", port: 80, username: "root", password, allowInsecure: true },
      zfs: { datasetParentName: "tank/a/vols", detachedSnapshotsDatasetParentName: "tank/a/snaps" },
      nfs: { shareHost: "nas.lan", shareMaprootUser: "root", shareMaprootGroup: "wheel" },
      _private: { csi: { volume: { idHash: { strategy: "crc32" } } } },
    },
  },
};

const iscsiConfig = {
  driver: "freenas-api-iscsi",
  httpConnection: { protocol: "https", host: "nas.lan", port: 443, apiKey: `1-${password}` },
  zfs: { datasetParentName: "tank/b/vols", detachedSnapshotsDatasetParentName: "tank/b/snaps" },
  iscsi: {
    targetPortal: "nas.lan:3260",
    targetGroups: [{ targetGroupPortalGroup: 1, targetGroupInitiatorGroup: 1, targetGroupAuthType: "None" }],
  },
};

const iscsi = {
  csiDriver: { name: "org.democratic-csi.iscsi", attachRequired: false },
  storageClasses: [{ name: "block", secrets: { "node-stage-secret": { "node-db.node.session.auth.password": chap } } }],
  driver: { existingConfigSecret: "old-config", config: { driver: "freenas-api-iscsi" } },
};

const iscsiSecret = {
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name: "old-config", namespace: "democratic-csi" },
  data: { "driver-config-file.yaml": Buffer.from(stringify(iscsiConfig)).toString("base64") },
};

/** Both deployments, with everything that they need. */
const both = () => [
  ...["--values", given("nfs.yaml", nfs), "--values", given("iscsi.yaml", iscsi)],
  ...["--release", "democratic-csi/zfs-nfs", "--release", "democratic-csi/zfs-iscsi"],
  ...[
    "--secret",
    given("secret.yaml", iscsiSecret),
    "--name",
    "org.example.storage",
    "--image",
    "example.org/csimux:1",
  ],
];

describe("csimux takeover", () => {
  test("turns two deployments into the files of one csimux, which pass csimux validate --strict", async () => {
    const { code, out: said } = await takeover(...both());
    expect([code, said]).toEqual([0, expect.stringMatching(/^no problems in 5 files$/m)]);
    expect(parse(read("proxy.yaml"))).toEqual({ driver: "proxy", proxy: { configFolder: "/connections" } });
    const secret = manifests("connections-secret.yaml").find(each => each.metadata.name === "csimux-connections");
    const files = secret?.["stringData"] as Record<string, string>;
    expect(Object.keys(files)).toEqual(["nfs.yaml", "iscsi.yaml"]);
    expect(parse(files["iscsi.yaml"] ?? "")).toEqual(iscsiConfig);
    const { instance_id: _, _private, ...kept } = nfs.driver.config;
    expect(parse(files["nfs.yaml"] ?? "")).toMatchObject(kept);
    expect(read("NOTES.md")).toBe(said.slice(0, read("NOTES.md").length));
  }, 60_000);

  test("writes secrets into one file alone, which only its owner may read", async () => {
    await takeover(...both());
    const telling = below(out(), "files only").filter(name => [password, chap].some(each => read(name).includes(each)));
    expect(telling).toEqual(["connections-secret.yaml"]);
    expect(statSync(join(out(), "connections-secret.yaml")).mode & 0o777).toBe(0o600);
    expect(statSync(out()).mode & 0o777).toBe(0o700);
  }, 60_000);

  test("says no secret in what it prints", async () => {
    const { out: said, err } = await takeover(...both());
    for (const secret of [password, chap]) expect(said + err).not.toContain(secret);
  }, 60_000);

  test("keeps classes, and the Secrets that the chart made for them under the names that volumes refer to", async () => {
    await takeover(...both());
    const [storage, snapshot] = manifests("classes.yaml");
    expect(storage).toMatchObject({
      kind: "StorageClass",
      metadata: { annotations: { "storageclass.kubernetes.io/is-default-class": "true" } },
      provisioner: "org.democratic-csi.nfs",
      mountOptions: ["noatime", "nfsvers=4"],
      parameters: {
        fsType: "nfs",
        // 63 characters, as the chart cuts them.
        "csi.storage.k8s.io/controller-publish-secret-name":
          "controller-publish-secret-freenas-nfs-csi-zfs-nfs-democratic-cs",
        "csi.storage.k8s.io/node-stage-secret-namespace": "democratic-csi",
      },
    });
    expect(snapshot).toMatchObject({ driver: "org.democratic-csi.nfs", deletionPolicy: "Delete" });
    const secrets = manifests("connections-secret.yaml").slice(1);
    expect(secrets).toHaveLength(5);
    expect(secrets.at(-1)).toMatchObject({
      metadata: { name: "node-stage-secret-block-zfs-iscsi-democratic-csi", namespace: "democratic-csi" },
      stringData: { "node-db.node.session.auth.password": chap },
    });
  }, 60_000);

  test("gives each old name a socket, the sidecars that it had, and the CSIDriver that the cluster knows", async () => {
    await takeover(...both());
    const aliases = ["--alias=org.democratic-csi.nfs=nfs", "--alias=org.democratic-csi.iscsi=iscsi"];
    const containers = (file: string) =>
      (
        manifests(file)[0] as never as {
          spec: { template: { spec: { containers: { name: string; args: string[] }[] } } };
        }
      ).spec.template.spec.containers;
    const controllers = containers("controller.yaml");
    expect(controllers.find(({ name }) => name === "csimux")?.args).toEqual(expect.arrayContaining(aliases));
    expect(controllers.map(({ name }) => name).filter(name => /nfs|iscsi/.test(name))).toEqual([
      ...["attacher-nfs", "provisioner-nfs", "snapshotter-nfs"],
      ...["attacher-iscsi", "provisioner-iscsi", "resizer-iscsi", "snapshotter-iscsi"],
    ]);
    for (const name of ["attacher", "attacher-iscsi"])
      expect(controllers.find(each => each.name === name)?.args).toContain("--kube-api-qps=50");
    const provisioner = controllers.find(({ name }) => name === "provisioner-nfs")?.args;
    expect(provisioner).toContain("--csi-address=/csi/org.democratic-csi.nfs.sock");
    expect(provisioner).not.toContain("--enable-capacity=true");
    const nodes = containers("node.yaml");
    expect(nodes.map(({ name }) => name)).toEqual(["csimux"]);
    expect(nodes[0]?.args).toEqual(
      expect.arrayContaining([...aliases, "--plugin-registration-socket=/registration/$(DRIVER_NAME)-reg.sock"]),
    );
    const known = spawnSync(await build(), ["serve", "--help"], { encoding: "utf8" }).stdout;
    for (const arg of [...(nodes[0]?.args ?? []), ...(controllers[0]?.args ?? [])].filter(each =>
      each.startsWith("--"),
    ))
      expect(known).toContain(`${arg.replace(/=.*/, "")} `);
    const attach = manifests("csidrivers.yaml").map(({ metadata, spec }) => [
      metadata.name,
      (spec as Manifest)["attachRequired"],
    ]);
    expect(attach).toEqual([
      ["org.example.storage", true],
      ["org.democratic-csi.nfs", true],
      // A disk, which its values did not attach.
      ["org.democratic-csi.iscsi", true],
    ]);
    expect(read("NOTES.md")).toContain("the volumes are now attached (attachRequired: true)");
  }, 60_000);

  test("lists every manifest for kubectl apply -k, each in a namespace where its kind has one", async () => {
    await takeover(...both(), "--namespace", "csi");
    const { resources } = parse(read("kustomization.yaml")) as { resources: string[] };
    const files = readdirSync(out()).filter(name => name.endsWith(".yaml") && !/^(?:proxy|kustomization)\./.test(name));
    expect([...resources].sort()).toEqual(files.sort());
    const spaced = resources.flatMap(manifests).filter(({ metadata }) => metadata.namespace !== undefined);
    expect([...new Set(spaced.map(({ metadata }) => metadata.namespace))].sort()).toEqual(["csi", "democratic-csi"]);
    const text = resources.map(read).join("\n");
    for (const example of ["csimux.storage", "registry.example.org"]) expect(text).not.toContain(example);
  }, 60_000);

  test("holds everything that the manifests of central have, but their classes", async () => {
    await takeover(...both());
    const { resources } = parse(read("kustomization.yaml")) as { resources: string[] };
    const made = resources.flatMap(manifests).map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    const folders = ["base", "attach", "drivers/central"].map(name => join(root, "examples/kubernetes", name));
    const listed = folders.flatMap(name => {
      const { resources: files } = parse(readFileSync(join(name, "kustomization.yaml"), "utf8")) as {
        resources: string[];
      };
      return files.filter(file => file.endsWith(".yaml") && file !== "classes.yaml").map(file => join(name, file));
    });
    const wanted = listed
      .flatMap(file => parseAllDocuments(readFileSync(file, "utf8")).map(each => each.toJS() as Manifest))
      .map(({ kind, metadata }) => `${kind} ${metadata.name}`.replace("csimux.storage", "org.example.storage"));
    expect(wanted.length).toBeGreaterThan(10);
    expect(made).toEqual(expect.arrayContaining(wanted));
  }, 60_000);

  test("says in words what it cannot carry over, what has no effect, and what could be better", async () => {
    const { out: said } = await takeover(...both());
    expect(said).toContain("controller.tolerations: not carried over");
    expect(said).toContain('_private.csi.volume.idHash: omitted: "idHash" has no effect');
    expect(said).toContain("[credentials-over-http]");
    expect(said).not.toContain("externalResizer");
  }, 60_000);

  test.each([
    ["without its Secret", { ...iscsi, storageClasses: [] }, "kubectl get secret old-config"],
    ["whose classes have Secrets, without its release", nfs, "add --release"],
    ["of drivers that keep volumes on nodes", local("zfs-local-zvol"), "take it over in place"],
    ["of the proxy driver", local("proxy"), "is already the proxy driver"],
    ["without the name of a driver", { driver: nfs.driver }, '"csiDriver.name" is missing'],
    ["that are not YAML", "a: [", "line 1"],
  ])(
    "refuses values %s in words, takes the others over and ends with 1",
    async (_, values, words) => {
      const plain = { ...nfs, storageClasses: [], volumeSnapshotClasses: [], csiDriver: { name: "org.x.plain" } };
      const { code, err } = await takeover("--values", given("a.yaml", values), "--values", given("b.yaml", plain));
      expect([code, err]).toEqual([1, expect.stringContaining(words)]);
      expect(read("NOTES.md")).toContain("a.yaml was not taken over");
      expect(read("NOTES.md")).toContain("| org.x.plain | plain |");
    },
    60_000,
  );

  test("ends with 1 and says what is left to do where the image is not known", async () => {
    const { code, err } = await takeover(...both().slice(0, -2));
    expect([code, err]).toEqual([1, expect.stringContaining("the image is a placeholder")]);
  }, 60_000);

  test("never overwrites: a folder that holds something is left alone", async () => {
    expect((await takeover(...both())).code).toBe(0);
    writeFileSync(join(out(), "proxy.yaml"), "mine");
    const { code, err } = await takeover(...both());
    expect([code, err]).toEqual([2, expect.stringContaining("is not empty")]);
    expect(read("proxy.yaml")).toBe("mine");
  }, 60_000);

  test("ends with 1 and the finding where the result does not pass csimux validate --strict", async () => {
    const config = {
      ...nfs.driver.config,
      httpConnection: { ...nfs.driver.config.httpConnection, host: "server address" },
    };
    const values = { ...nfs, storageClasses: [], volumeSnapshotClasses: [], driver: { config } };
    const { code, out: said } = await takeover("--values", given("a.yaml", values));
    expect([code, said]).toEqual([1, expect.stringContaining("[placeholder-value]")]);
  }, 60_000);

  test("keeps a node block that all old configurations share, in the main file", async () => {
    const node = { mount: { mount_flags: "noatime" } };
    const own = (name: string, dataset: string, block: object) => ({
      csiDriver: { name },
      driver: {
        config: {
          ...nfs.driver.config,
          zfs: { datasetParentName: dataset, detachedSnapshotsDatasetParentName: `${dataset}-s` },
          node: block,
        },
      },
    });
    const image = ["--image", "example.org/csimux:1"];
    const values = [...image, "--values", given("a.yaml", own("org.x.a", "tank/a", node)), "--values"];
    expect((await takeover(...values, given("b.yaml", own("org.x.b", "tank/b", node)))).code).toBe(0);
    expect(parse(read("proxy.yaml")).node).toEqual(node);
    rmSync(out(), { recursive: true });
    const { out: said } = await takeover(
      ...values,
      given("b.yaml", own("org.x.b", "tank/b", { mount: { mount_flags: "ro" } })),
    );
    expect(parse(read("proxy.yaml")).node).toBeUndefined();
    expect(said).toContain("the blocks of the old deployments differ");
  }, 60_000);
});

function local(driver: string) {
  return { csiDriver: { name: "org.x.local" }, driver: { config: { driver, zfs: { datasetParentName: "tank/l" } } } };
}

test("every connection file of the examples that csimux serves is taken over as it is", async () => {
  const folder = join(root, "examples/connections");
  const served = readdirSync(folder).filter(name => /^(?:freenas|synology|zfs|nfs|smb|lustre)-.*\.yaml$/.test(name));
  const able = served.filter(name => name !== "zfs-generic-nvmeof.yaml");
  expect(able.length).toBeGreaterThan(12);
  const values = able.flatMap(name => {
    const config = parse(readFileSync(join(folder, name), "utf8")) as object;
    return ["--values", given(name, { csiDriver: { name: `org.example.${name.slice(0, -5)}` }, driver: { config } })];
  });
  await takeover(...values);
  const secret = manifests("connections-secret.yaml")[0]?.["stringData"] as Record<string, string>;
  for (const name of able) {
    const { node: _, ...config } = parse(readFileSync(join(folder, name), "utf8")) as Record<string, unknown>;
    expect(parse(secret[name] ?? "")).toEqual(config);
  }
}, 60_000);

describe("csimux takeover --print-pvs", () => {
  const volume = (name: string, driver: string, volumeHandle: string, policy = "Delete") => ({
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: {
      name,
      uid: "gone",
      resourceVersion: "5",
      finalizers: ["external-provisioner.volume.kubernetes.io/finalizer"],
      annotations: {
        "pv.kubernetes.io/provisioned-by": driver,
        "volume.kubernetes.io/provisioner-deletion-secret-name": "s",
      },
    },
    spec: {
      capacity: { storage: "1Gi" },
      persistentVolumeReclaimPolicy: policy,
      claimRef: { kind: "PersistentVolumeClaim", namespace: "app", name: "data", uid: "kept", resourceVersion: "7" },
      csi: { driver, volumeHandle, volumeAttributes: { node_attach_driver: "nfs" } },
    },
    status: { phase: "Bound" },
  });
  const list = (...items: object[]) => JSON.stringify({ apiVersion: "v1", kind: "List", items });

  test("writes each volume of an old name under the new one, with Retain and its claim, and the steps in their order", async () => {
    const pvs = given(
      "pvs.json",
      list(volume("pvc-1", "org.democratic-csi.nfs", "pvc-1"), volume("x", "com.other", "x")),
    );
    expect((await takeover(...both(), "--print-pvs", pvs)).code).toBe(0);
    expect(readdirSync(join(out(), "persistent-volumes"))).toEqual(["pvc-1.yaml"]);
    const text = read("persistent-volumes/pvc-1.yaml");
    expect(parse(text)).toEqual({
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: {
        name: "pvc-1",
        annotations: {
          "pv.kubernetes.io/provisioned-by": "org.example.storage",
          "volume.kubernetes.io/provisioner-deletion-secret-name": "s",
        },
      },
      spec: {
        capacity: { storage: "1Gi" },
        persistentVolumeReclaimPolicy: "Retain",
        claimRef: { kind: "PersistentVolumeClaim", namespace: "app", name: "data", uid: "kept" },
        csi: {
          driver: "org.example.storage",
          volumeHandle: "v:nfs/pvc-1",
          volumeAttributes: { node_attach_driver: "nfs" },
        },
      },
    });
    const order = [
      "Delete every pod",
      '"Retain"',
      "must show Retain",
      "delete pv pvc-1",
      "finalizers",
      "create -f",
      '"Delete"',
    ];
    const places = order.map(words => text.indexOf(words));
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(Math.min(...places)).toBeGreaterThan(-1);
    expect(read("NOTES.md")).toContain("1 volumes can be moved; 1 belong to other drivers");
  }, 60_000);

  test("leaves a volume whose handle would become too long, or that is being deleted, under its old name and says so", async () => {
    const going = volume("pvc-2", "org.democratic-csi.nfs", "pvc-2");
    const pvs = list(volume("pvc-1", "org.democratic-csi.nfs", "x".repeat(126)), {
      ...going,
      metadata: { ...going.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
    });
    const { code, out: said } = await takeover(...both(), "--print-pvs", given("pvs.json", pvs));
    expect(code).toBe(1);
    expect(said).toContain("pvc-1: its handle is too long");
    expect(said).toContain("pvc-2: it is being deleted");
  }, 60_000);
});
