import { describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { parse, parseAllDocuments } from "yaml";
import { modules } from "../lib/drivers/index.ts";
import type { Input } from "../lib/lint/input.ts";
import { lint } from "../lib/lint/lint.ts";
import { build } from "../scripts/build.ts";
import { below } from "../scripts/check/below.ts";
import { changedBlocksVersion } from "../scripts/cluster/changed-blocks.ts";
import { sidecars } from "../scripts/cluster/images.ts";

const folder = new URL("../examples/kubernetes/", import.meta.url);
const text = (file: string): string => readFileSync(new URL(file, folder), "utf8");

/** Every YAML file below the folder. */
const files = below(folder.pathname).filter(name => name.endsWith(".yaml"));

interface Container {
  readonly name: string;
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly ports?: readonly { readonly name?: string; readonly containerPort: number }[];
  readonly volumeMounts?: readonly { readonly name: string }[];
  readonly securityContext?: unknown;
  readonly resources?: {
    readonly requests?: Readonly<Record<string, string>>;
    readonly limits?: Readonly<Record<string, string>>;
  };
}

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly { readonly name: string }[];
  readonly rules?: readonly {
    readonly apiGroups: readonly string[];
    readonly resources: readonly string[];
    readonly verbs: readonly string[];
  }[];
  readonly spec?: {
    readonly replicas?: number;
    readonly template: {
      readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> };
      readonly spec: {
        readonly containers: readonly Container[];
        readonly volumes: readonly { readonly name: string }[];
      };
    };
  };
}

const manifests = files.flatMap(file =>
  parseAllDocuments(text(file))
    .map(document => document.toJS() as Manifest)
    .filter(each => each?.kind !== undefined && each.metadata !== undefined)
    .map(manifest => ({ file, manifest })),
);
const workloads = manifests.filter(({ manifest }) => ["Deployment", "DaemonSet"].includes(manifest.kind));
const podOf = (manifest: Manifest) => manifest.spec?.template.spec;
const argsOf = (file: string, container: string): readonly string[] => {
  const found = workloads
    .filter(each => each.file === file)
    .flatMap(({ manifest }) => podOf(manifest)?.containers ?? [])
    .find(({ name }) => name === container);
  return found?.args ?? [];
};

describe("the manifests", () => {
  test.each(["central", "node-local"])("of %s pass csimux validate --strict with their connections", async name => {
    const outside = { env: () => undefined, file: () => undefined };
    const folders = [`${name}/`, `drivers/${name}/`, "base/", ...(name === "central" ? ["attach/"] : [])];
    const own = files.filter(file => folders.some(each => file.startsWith(each)));
    const inputs = own.map((file): Input => {
      const role = file.includes("/connections/") ? "connection" : file.endsWith("proxy.yaml") ? "main" : "given";
      return { file, text: text(file), role };
    });
    expect(inputs.map(({ role }) => role).sort()).toContain("connection");
    const { problems } = lint(inputs, { modules, resolver: outside, checkEnvironment: false });
    // The registry is the only thing that has to be filled in.
    expect(problems.map(({ rule }) => rule)).toEqual(["placeholder-image"]);
  });

  test("pass csimux only flags that it has", async () => {
    const { stdout } = spawnSync(await build(), ["serve", "--help"], { encoding: "utf8" });
    const flags = workloads
      .flatMap(({ manifest }) => podOf(manifest)?.containers ?? [])
      .filter(({ name }) => name === "csimux")
      .flatMap(({ args = [] }) => args.slice(1).map(arg => arg.replace(/=.*/, "")));
    expect(flags.length).toBeGreaterThan(8);
    expect(flags.filter(flag => !stdout.includes(`${flag} `))).toEqual([]);
  });

  test("bind only roles and accounts that they create", () => {
    const made = new Set(manifests.map(({ manifest }) => `${manifest.kind} ${manifest.metadata.name}`));
    const bindings = manifests.filter(({ manifest }) => manifest.kind.endsWith("Binding"));
    expect(bindings.length).toBeGreaterThan(3);
    for (const { manifest } of bindings) {
      expect(made).toContain(`${manifest.roleRef?.kind} ${manifest.roleRef?.name}`);
      for (const { name } of manifest.subjects ?? []) expect(made).toContain(`ServiceAccount ${name}`);
    }
  });

  test("grant neither reading secrets nor anything to everything", () => {
    const rules = manifests.flatMap(({ manifest }) => manifest.rules ?? []);
    expect(rules.length).toBeGreaterThan(10);
    expect(rules.filter(rule => rule.resources.includes("secrets"))).toEqual([]);
    expect(rules.filter(rule => [...rule.resources, ...rule.verbs].includes("*"))).toEqual([]);
  });

  test("let the sidecars of two controllers elect a leader, unlike the sidecars of a node", () => {
    const controller = workloads.find(({ file }) => file === "drivers/central/controller.yaml");
    expect(controller?.manifest.spec?.replicas).toBe(2);
    for (const sidecar of ["provisioner", "resizer", "snapshotter"])
      expect(argsOf("drivers/central/controller.yaml", sidecar)).toContain("--leader-election");
    expect(argsOf("attach/attacher-patch.yaml", "attacher")).toContain("--leader-election");
    for (const sidecar of ["provisioner", "snapshotter"]) {
      const args = argsOf("drivers/node-local/node-patch.yaml", sidecar);
      expect(args).toContain("--node-deployment=true");
      expect(args).not.toContain("--leader-election");
    }
  });

  test("remove every privilege from every container of the unprivileged controller", () => {
    const containers = (name: string) =>
      workloads.filter(({ file }) => file === name).flatMap(({ manifest }) => podOf(manifest)?.containers ?? []);
    const limited = containers("central-non-root/controller-patch.yaml");
    const there = ["drivers/central/controller.yaml", "attach/attacher-patch.yaml"].flatMap(containers);
    const sidecar = { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } };
    for (const { name, securityContext } of [...there, ...containers("drivers/node-local/node-patch.yaml")])
      if (name !== "csimux") expect(securityContext).toEqual(sidecar);
    expect(limited.map(({ name }) => name)).toEqual(there.map(({ name }) => name));
    for (const { securityContext } of limited)
      expect(securityContext).toEqual({
        privileged: false,
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
  });

  test("create volumes where their pods run, and publish free space", () => {
    for (const file of ["drivers/central/controller.yaml", "drivers/node-local/node-patch.yaml"]) {
      const args = argsOf(file, "provisioner");
      expect(args).toContain("--strict-topology=true");
      expect(args).toContain("--enable-capacity=true");
    }
    expect(argsOf("drivers/central/controller.yaml", "provisioner")).toContain("--immediate-topology=false");
  });

  // csi-provisioner 6.3 pauses up to 5 minutes between attempts by default, and has one thread that asks for capacities
  // (cmd/csi-provisioner/csi-provisioner.go).
  test("let claims that wait for a long copy, and storage that does not answer, delay nothing else", () => {
    const wanted = expect.arrayContaining(["--worker-threads=100", "--retry-interval-max=1m", "--capacity-threads=16"]);
    for (const file of ["drivers/central/controller.yaml", "drivers/node-local/node-patch.yaml"])
      expect(argsOf(file, "provisioner")).toEqual(wanted);
    for (const file of ["../helm-values.yaml", "../local/helm-values.yaml"])
      expect(parse(text(file))).toMatchObject({ controller: { externalProvisioner: { extraArgs: wanted } } });
  });

  test("pass csimux its node name, and mount only volumes of the pod", () => {
    const [node] = workloads.filter(({ file }) => file === "base/node.yaml");
    if (!node) throw new Error("base/node.yaml has a DaemonSet");
    const csimux = podOf(node.manifest)?.containers.find(({ name }) => name === "csimux");
    expect(csimux?.env?.map(({ name }) => name)).toContain("CSI_NODE_ID");
    const whole = workloads.filter(({ file }) => !file.endsWith("-patch.yaml"));
    for (const { file, manifest } of workloads) {
      // A patch also mounts volumes of the patched object.
      const patched = file.endsWith("-patch.yaml")
        ? whole.filter(each => each.manifest.kind === manifest.kind).map(each => podOf(each.manifest))
        : [];
      const pods = [podOf(manifest), ...patched];
      const there = new Set(pods.flatMap(pod => pod?.volumes ?? []).map(({ name }) => name));
      const mounted = (podOf(manifest)?.containers ?? []).flatMap(each => each.volumeMounts ?? []);
      expect(mounted.filter(({ name }) => !there.has(name))).toEqual([]);
    }
  });

  test("use the sidecars of the test cluster, and probe two drivers of a node on two ports", () => {
    const images = files.flatMap(file => [...text(file).matchAll(/image: registry\.k8s\.io\/sig-storage\/(\S+)/g)]);
    const made = Object.entries(sidecars).map(([name, version]) => `${name}:${version}`);
    expect(images.map(([, image = ""]) => image)).toContain(`csi-snapshot-metadata:${changedBlocksVersion}`);
    // The test cluster does not have this one.
    const used = images.map(([, image = ""]) => image).filter(image => !image.startsWith("csi-snapshot-metadata"));
    expect(new Set(used)).toEqual(new Set(made.filter(name => !name.startsWith("snapshot-c"))));
    const port = (file: string) => argsOf(file, "csimux").find(arg => arg.startsWith("--health-address="));
    expect(port("base/node.yaml")).not.toBe(port("drivers/node-local/node-patch.yaml"));
  });

  test("serve metrics of controller and nodes, each on its own annotated port named metrics", () => {
    const told = (file: string) => {
      const found = workloads.find(each => each.file === file)?.manifest.spec?.template;
      const ports = found?.spec.containers.find(({ name }) => name === "csimux")?.ports ?? [];
      const flag = argsOf(file, "csimux").find(arg => arg.startsWith("--metrics-address="));
      const named = ports.find(({ name }) => name === "metrics")?.containerPort;
      return [flag, named, found?.metadata?.annotations?.["prometheus.io/port"]];
    };
    const as = (port: number) => [`--metrics-address=:${port}`, port, String(port)];
    expect(told("drivers/central/controller.yaml")).toEqual(as(9733));
    expect(told("base/node.yaml")).toEqual(as(9733));
    expect(told("drivers/node-local/node-patch.yaml")).toEqual(as(9736));
  });

  test("attach volumes if connections can serve disks, and not if volumes stay on their node", () => {
    const of = <T>(file: string): T => parse(text(file)) as T;
    const required = (file: string) => of<{ spec: { attachRequired?: boolean } }>(file).spec.attachRequired;
    const components = (folder: string) => of<{ components?: string[] }>(`${folder}/kustomization.yaml`).components;
    expect(required("base/csidriver.yaml")).toBe(true);
    expect(components("central")).toEqual(["../attach", "../settings"]);
    expect(required("drivers/node-local/csidriver-patch.yaml")).toBe(false);
    expect(components("node-local")).toEqual(["../settings"]);
  });

  // With the defaults of csi-attacher (5 requests a second, 10 workers) 1,000 attachments take ten minutes.
  test("give csi-attacher the settings for 1,000 attachments at once, and the permissions of its deployment", () => {
    expect(argsOf("attach/attacher-patch.yaml", "attacher")).toEqual(
      expect.arrayContaining([
        ...["--kube-api-qps=50", "--kube-api-burst=100", "--worker-threads=32", "--timeout=60s", "--reconcile-sync=5m"],
      ]),
    );
    const [role] = manifests.filter(({ file, manifest }) => file.startsWith("attach/") && manifest.rules !== undefined);
    const rights = (role?.manifest.rules ?? []).flatMap(({ apiGroups, resources, verbs }) =>
      resources.map(resource => `${apiGroups.join()}/${resource}: ${verbs.join(" ")}`),
    );
    // deploy/kubernetes/rbac.yaml of external-attacher 4.12.
    expect(rights).toEqual([
      "/persistentvolumes: get list watch patch",
      "storage.k8s.io/csinodes: get list watch",
      "storage.k8s.io/volumeattachments: get list watch patch",
      "storage.k8s.io/volumeattachments/status: patch",
    ]);
  });

  test("give csi-snapshotter the gate and the permissions for group snapshots", () => {
    const usual = argsOf("drivers/central/controller.yaml", "snapshotter");
    const gate = "--feature-gates=CSIVolumeGroupSnapshot=true";
    expect(argsOf("group-snapshots/snapshotter-patch.yaml", "snapshotter")).toEqual([...usual, gate]);
    const rules = manifests.filter(({ file }) => file === "group-snapshots/rights.yaml")[0]?.manifest.rules ?? [];
    // deploy/kubernetes/csi-snapshotter/rbac-csi-snapshotter.yaml of external-snapshotter 8.6.
    expect(rules.map(({ resources: [resource], verbs }) => `${resource}: ${verbs.join(" ")}`)).toEqual([
      "volumegroupsnapshotclasses: get list watch",
      "volumegroupsnapshotcontents: get list watch update patch",
      "volumegroupsnapshotcontents/status: update patch",
    ]);
  });

  test("give the node plugin access to the API only for topology from node labels", () => {
    const node = parse(text("base/node.yaml")) as { spec: { template: { spec: Record<string, unknown> } } };
    expect(node.spec.template.spec["automountServiceAccountToken"]).toBe(false);
    const roles = manifests.filter(({ file, manifest }) => file.startsWith("base/") && manifest.rules !== undefined);
    expect(roles).toEqual([]);
    const rules = manifests.filter(({ file }) => file === "node-labels/rights.yaml")[0]?.manifest.rules;
    expect(rules).toEqual([{ apiGroups: [""], resources: ["nodes"], verbs: ["get"] }]);
  });

  // 136 MiB were measured under load; a storage system that answers without end can add 256 MiB.
  test("limit the memory of csimux to no less than its measured use", () => {
    const mebibytes = (size = "") => Number.parseInt(size, 10) * (size.endsWith("Gi") ? 1024 : 1);
    for (const file of ["drivers/central/controller.yaml", "base/node.yaml"]) {
      const { manifest } = workloads.find(each => each.file === file) ?? {};
      const csimux = manifest && podOf(manifest)?.containers.find(({ name }) => name === "csimux");
      const { requests, limits } = csimux?.resources ?? {};
      expect(mebibytes(requests?.["memory"])).toBeGreaterThanOrEqual(96);
      expect(mebibytes(limits?.["memory"])).toBeGreaterThanOrEqual(136 + 256);
      expect(mebibytes(limits?.["memory"])).toBeLessThanOrEqual(1024);
    }
  });

  test("allow inline volumes of pods only for disks of nodes", () => {
    const modesOf = (file: string) =>
      (parse(text(file)) as { spec: { volumeLifecycleModes: string[] } }).spec.volumeLifecycleModes;
    expect(modesOf("base/csidriver.yaml")).toEqual(["Persistent"]);
    expect(modesOf("drivers/node-local/csidriver-patch.yaml")).toEqual(["Persistent", "Ephemeral"]);
  });

  test("name only existing files", () => {
    const kustomizations = files.filter(file => file.endsWith("kustomization.yaml"));
    expect(kustomizations.length).toBeGreaterThan(6);
    for (const file of kustomizations) {
      const {
        resources = [],
        components = [],
        configMapGenerator = [],
        secretGenerator = [],
        patches = [],
      } = parse(text(file)) as Record<string, never[]>;
      const generated = [...configMapGenerator, ...secretGenerator].flatMap((each: { files: string[] }) => each.files);
      const named = [...resources, ...components, ...generated, ...patches.map((each: { path: string }) => each.path)];
      for (const path of named) {
        const target = new URL(path, new URL(file, folder)).pathname.slice(folder.pathname.length);
        expect(files.some(each => each === target || each.startsWith(`${target}/`))).toBe(true);
      }
    }
  });
});
