import { describe, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { parse, parseAllDocuments } from "yaml";
import { modules } from "../lib/drivers/index.ts";
import type { Input } from "../lib/lint/input.ts";
import { lint } from "../lib/lint/lint.ts";
import { patternCompiler } from "../lib/topology/pattern.ts";
import { build } from "../scripts/build.ts";
import { sidecars } from "../scripts/cluster/images.ts";

const folder = new URL("../examples/kubernetes/", import.meta.url);
const text = (file: string): string => readFileSync(new URL(file, folder), "utf8");

/** Every YAML file below the folder. */
const files = (readdirSync(folder, { recursive: true }) as string[]).filter(name => name.endsWith(".yaml")).sort();

interface Container {
  readonly name: string;
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly volumeMounts?: readonly { readonly name: string }[];
  readonly securityContext?: unknown;
}

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly { readonly name: string }[];
  readonly rules?: readonly { readonly resources: readonly string[]; readonly verbs: readonly string[] }[];
  readonly spec?: {
    readonly replicas?: number;
    readonly template: {
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
    const compile = await patternCompiler(["."]);
    const outside = { env: () => undefined, file: () => undefined };
    const own = files.filter(file => file.startsWith(`drivers/${name}/`) || file.startsWith("base/"));
    const inputs = own.map((file): Input => {
      const role = file.includes("/connections/") ? "connection" : file.endsWith("proxy.yaml") ? "main" : "given";
      return { file, text: text(file), role };
    });
    expect(inputs.map(({ role }) => role).sort()).toContain("connection");
    expect(lint(inputs, { modules, outside, atHome: false, compile }).problems).toEqual([]);
  });

  test("give csimux no flag that it does not know", async () => {
    const { stdout } = spawnSync(await build(), ["serve", "--help"], { encoding: "utf8" });
    const flags = workloads
      .flatMap(({ manifest }) => podOf(manifest)?.containers ?? [])
      .filter(({ name }) => name === "csimux")
      .flatMap(({ args = [] }) => args.slice(1).map(arg => arg.replace(/=.*/, "")));
    expect(flags.length).toBeGreaterThan(8);
    expect(flags.filter(flag => !stdout.includes(`${flag} `))).toEqual([]);
  });

  test("bind only rights and accounts that they make", () => {
    const made = new Set(manifests.map(({ manifest }) => `${manifest.kind} ${manifest.metadata.name}`));
    const bindings = manifests.filter(({ manifest }) => manifest.kind.endsWith("Binding"));
    expect(bindings.length).toBeGreaterThan(3);
    for (const { manifest } of bindings) {
      expect(made).toContain(`${manifest.roleRef?.kind} ${manifest.roleRef?.name}`);
      for (const { name } of manifest.subjects ?? []) expect(made).toContain(`ServiceAccount ${name}`);
    }
  });

  test("give no right to read secrets, and none to everything", () => {
    const rules = manifests.flatMap(({ manifest }) => manifest.rules ?? []);
    expect(rules.length).toBeGreaterThan(10);
    expect(rules.filter(rule => rule.resources.includes("secrets"))).toEqual([]);
    expect(rules.filter(rule => [...rule.resources, ...rule.verbs].includes("*"))).toEqual([]);
  });

  test("let the sidecars of two controllers elect a leader, and those of a node none", () => {
    const controller = workloads.find(({ file }) => file === "drivers/central/controller.yaml");
    expect(controller?.manifest.spec?.replicas).toBe(2);
    for (const sidecar of ["provisioner", "resizer", "snapshotter"])
      expect(argsOf("drivers/central/controller.yaml", sidecar)).toContain("--leader-election");
    for (const sidecar of ["provisioner", "snapshotter"]) {
      const args = argsOf("drivers/node-local/node-patch.yaml", sidecar);
      expect(args).toContain("--node-deployment=true");
      expect(args).not.toContain("--leader-election");
    }
  });

  test("take every right from every container of the controller that is not root", () => {
    const containers = (name: string) =>
      workloads.filter(({ file }) => file === name).flatMap(({ manifest }) => podOf(manifest)?.containers ?? []);
    const limited = containers("central-non-root/controller-patch.yaml");
    expect(limited.map(({ name }) => name)).toEqual(
      containers("drivers/central/controller.yaml").map(({ name }) => name),
    );
    for (const { securityContext } of limited)
      expect(securityContext).toEqual({
        privileged: false,
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
  });

  test("place volumes where their pods run, and publish free space", () => {
    for (const file of ["drivers/central/controller.yaml", "drivers/node-local/node-patch.yaml"]) {
      const args = argsOf(file, "provisioner");
      expect(args).toContain("--strict-topology=true");
      expect(args).toContain("--enable-capacity=true");
    }
    expect(argsOf("drivers/central/controller.yaml", "provisioner")).toContain("--immediate-topology=false");
  });

  test("tell csimux its node, and mount only volumes that the pod has", () => {
    const [node] = workloads.filter(({ file }) => file === "base/node.yaml");
    if (!node) throw new Error("base/node.yaml has a DaemonSet");
    const csimux = podOf(node.manifest)?.containers.find(({ name }) => name === "csimux");
    expect(csimux?.env?.map(({ name }) => name)).toContain("CSI_NODE_ID");
    for (const { file, manifest } of workloads) {
      // The patch mounts volumes of what it patches, too.
      const patched = file.startsWith("central") ? [] : [podOf(node.manifest)];
      const pods = file.endsWith("-patch.yaml") ? [podOf(manifest), ...patched] : [podOf(manifest)];
      const there = new Set(pods.flatMap(pod => pod?.volumes ?? []).map(({ name }) => name));
      const mounted = (podOf(manifest)?.containers ?? []).flatMap(each => each.volumeMounts ?? []);
      expect(mounted.filter(({ name }) => !there.has(name))).toEqual([]);
    }
  });

  test("ask for the sidecars that the cluster of the tests has, and probe two drivers of a node on two ports", () => {
    const images = files.flatMap(file => [...text(file).matchAll(/image: registry\.k8s\.io\/sig-storage\/(\S+)/g)]);
    const made = Object.entries(sidecars).map(([name, version]) => `${name}:${version}`);
    expect(new Set(images.map(([, image]) => image))).toEqual(
      new Set(made.filter(name => !name.startsWith("snapshot-c"))),
    );
    const port = (file: string) => argsOf(file, "csimux").find(arg => arg.startsWith("--health-address="));
    expect(port("base/node.yaml")).not.toBe(port("drivers/node-local/node-patch.yaml"));
  });

  test("let pods describe volumes where disks of nodes are, and nowhere else", () => {
    const modesOf = (file: string) =>
      (parse(text(file)) as { spec: { volumeLifecycleModes: string[] } }).spec.volumeLifecycleModes;
    expect(modesOf("base/csidriver.yaml")).toEqual(["Persistent"]);
    expect(modesOf("drivers/node-local/csidriver-patch.yaml")).toEqual(["Persistent", "Ephemeral"]);
  });

  test("name files that there are", () => {
    const kustomizations = files.filter(file => file.endsWith("kustomization.yaml"));
    expect(kustomizations.length).toBeGreaterThan(6);
    for (const file of kustomizations) {
      const {
        resources = [],
        configMapGenerator = [],
        secretGenerator = [],
        patches = [],
      } = parse(text(file)) as Record<string, never[]>;
      const generated = [...configMapGenerator, ...secretGenerator].flatMap((each: { files: string[] }) => each.files);
      const named = [...resources, ...generated, ...patches.map((each: { path: string }) => each.path)];
      for (const path of named) {
        const target = new URL(path, new URL(file, folder)).pathname.slice(folder.pathname.length);
        expect(files.some(each => each === target || each.startsWith(`${target}/`))).toBe(true);
      }
    }
  });
});
