import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { goProgram, hasGoProgram } from "../scripts/cluster/tools.ts";
import { spawned } from "../scripts/spawned.ts";
import { type KubeObject, objectsOf, rendered } from "./helm.ts";

const folder = new URL("../examples/kubernetes/", import.meta.url).pathname;

/** Kinds without a namespace, to which kustomize adds one because it does not know them. */
const clusterWide = new Set(["VolumeSnapshotClass", "VolumeGroupSnapshotClass", "SecurityContextConstraints"]);

const decoded = (text: string): unknown => parse(Buffer.from(text, "base64").toString());

/** The key of an entry of a list whose order means nothing: of named things, of mounts, and of texts such as flags. */
const keyOf = (entry: unknown): string | undefined => {
  if (typeof entry === "string") return entry;
  const { mountPath, name } = (entry ?? {}) as { mountPath?: string; name?: string };
  return mountPath ?? name;
};

/** The object with such lists sorted, files parsed, and without the hash at the end of generated names. */
function comparable(value: unknown): unknown {
  if (typeof value === "string") return value.replace(/^(csimux-(?:config|ca)(?:-local)?)-[a-z0-9]{10}$/, "$1");
  if (Array.isArray(value)) {
    const entries = value.map(comparable);
    return entries.every(each => keyOf(each) !== undefined)
      ? entries.sort((a, b) => ((keyOf(a) ?? "") < (keyOf(b) ?? "") ? -1 : 1))
      : entries;
  }
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, comparable(each)]));
}

function keyed(objects: readonly KubeObject[]): ReadonlyMap<string, unknown> {
  const all = objects.map(object => {
    const { kind, metadata, data } = object;
    const files = Object.entries((data ?? {}) as Record<string, string>).map(([name, text]) => [
      name,
      kind === "Secret" ? decoded(text) : name.endsWith(".crt") ? text.trimEnd() : parse(text),
    ]);
    const { namespace: _, ...rest } = metadata;
    const whole = {
      ...object,
      metadata: clusterWide.has(kind) ? rest : metadata,
      ...(data ? { data: Object.fromEntries(files) } : {}),
    };
    return [`${kind} ${comparable(metadata.name)}`, comparable(whole)] as const;
  });
  expect(new Set(all.map(([key]) => key)).size).toBe(all.length);
  return new Map(all);
}

const kustomized = async (overlay: string, home = folder): Promise<readonly KubeObject[]> => {
  const { code, stdout, stderr } = await spawned([goProgram("kustomize"), "build", join(home, overlay)]);
  expect([code, stderr]).toEqual([0, ""]);
  return objectsOf(stdout);
};

/** The fields of a class that chart and manifests get from their user. */
const classesOf = (objects: readonly KubeObject[], kind: string) =>
  objects
    .filter(each => each.kind === kind)
    .map(({ apiVersion, kind, metadata, provisioner, driver, ...rest }) => ({ name: metadata.name, ...rest }));

/** The values that ask for what the user of the manifests has written: names, image, classes and connections. */
function valuesOf(objects: readonly KubeObject[], more: object) {
  const [driver] = objects.filter(({ kind }) => kind === "CSIDriver");
  const [workload] = objects.filter(({ kind }) => kind === "DaemonSet");
  const containers = workload?.["spec"].template.spec.containers as { name: string; image: string }[];
  const [repository, tag] = containers.find(({ name }) => name === "csimux")?.image.split(":") ?? [];
  return {
    driverName: driver?.metadata.name,
    image: { repository, tag },
    storageClasses: classesOf(objects, "StorageClass"),
    volumeSnapshotClasses: classesOf(objects, "VolumeSnapshotClass"),
    ...more,
  };
}

/** The connection files of a driver of the manifests, as flags that leave them as they are. */
const connectionFlags = (driver: string): readonly string[] => {
  const home = `${folder}${driver}/connections/`;
  return readdirSync(home).flatMap(file => ["--set-file", `connections.${file.replace(".yaml", "")}=${home}${file}`]);
};

const overlays = [
  { overlay: "central", driver: "central", release: "csimux", values: { node: { hostRoot: true } } },
  {
    overlay: "central-non-root",
    driver: "central",
    release: "csimux",
    values: { controller: { privileged: false }, node: { hostRoot: true } },
  },
  { overlay: "node-local", driver: "node-local", release: "csimux-local", values: { mode: "node-local" } },
] as const;

describe.skipIf(!hasGoProgram("helm") || !hasGoProgram("kustomize"))("the chart", () => {
  test.each(overlays)("makes the objects of $overlay", async ({ overlay, driver, release, values }) => {
    const manifests = await kustomized(overlay);
    const wanted = keyed(manifests);
    const made = keyed(await rendered(valuesOf(manifests, values), release, connectionFlags(driver)));
    expect([...made.keys()].sort()).toEqual([...wanted.keys()].sort());
    for (const [key, object] of wanted) expect({ [key]: made.get(key) }).toEqual({ [key]: object });
  });

  test("makes the objects of central with every option", async () => {
    const copy = await mkdtemp(join(tmpdir(), "csimux-kustomize-"));
    try {
      await cp(folder, copy, { recursive: true });
      const file = join(copy, "central/kustomization.yaml");
      const options = (await readFile(file, "utf8")).replace(/# - (\.\.\/(?!no-metrics)[a-z-]+)/g, "- $1");
      const ca = "configMapGenerator:\n  - name: csimux-ca\n    files:\n      - extra-ca-certs.crt\n";
      await writeFile(file, options.replace("configMapGenerator:\n", ca));
      await writeFile(join(copy, "central/extra-ca-certs.crt"), "-----BEGIN CERTIFICATE-----\n");
      const settings = join(copy, "central/settings.yaml");
      const text = (await readFile(settings, "utf8")).replace("kubelet: /var/lib/", "kubelet: /var/lib/k0s/");
      await writeFile(settings, text.replace("csimux.storage", "two.example.com"));
      const rule = { topologyKey: "zone", source: "nodeLabel", label: "topology.kubernetes.io/zone" };
      const proxy = { configFolder: "/connections", nodeTopology: { type: "zone", fromRegexp: [rule] } };
      const main = JSON.stringify({ driver: "proxy", proxy });
      await writeFile(join(copy, "central/proxy.yaml"), main);
      const manifests = await kustomized("central", copy);
      const values = {
        main,
        node: { kubeletFolder: "/var/lib/k0s/kubelet/" },
        volumeGroupSnapshotClasses: [{ name: "csimux" }],
        extraCaCerts: "-----BEGIN CERTIFICATE-----",
        page: { enabled: true, existingSecret: "csimux-page" },
        snapshotMetadata: { enabled: true, existingSecret: "csimux-snapshot-metadata" },
        metrics: { serviceMonitor: { enabled: true } },
        openshift: { enabled: true },
        nodeAllocatableUpdatePeriodSeconds: 60,
      };
      const wanted = Object.fromEntries(keyed(manifests));
      expect(Object.keys(wanted)).toEqual(
        expect.arrayContaining(["ClusterRole csimux-node", "CSIDriver two.example.com"]),
      );
      const made = await rendered(valuesOf(manifests, values), "csimux", connectionFlags("central"));
      expect(Object.fromEntries(keyed(made))).toEqual(wanted);
    } finally {
      await rm(copy, { recursive: true, force: true });
    }
  });

  test("makes the objects of central without metrics", async () => {
    const copy = await mkdtemp(join(tmpdir(), "csimux-kustomize-"));
    try {
      await cp(folder, copy, { recursive: true });
      const file = join(copy, "central/kustomization.yaml");
      await writeFile(file, (await readFile(file, "utf8")).replace("# - ../no-metrics", "- ../no-metrics"));
      const manifests = await kustomized("central", copy);
      const values = { metrics: { enabled: false }, node: { hostRoot: true } };
      const made = await rendered(valuesOf(manifests, values), "csimux", connectionFlags("central"));
      expect(Object.fromEntries(keyed(made))).toEqual(Object.fromEntries(keyed(manifests)));
    } finally {
      await rm(copy, { recursive: true, force: true });
    }
  });

  test("makes the objects of both, installed twice", async () => {
    const wanted = keyed(await kustomized("both"));
    const made = overlays
      .filter(({ overlay }) => overlay !== "central-non-root")
      .map(async ({ overlay, driver, release, values }) =>
        rendered(valuesOf(await kustomized(overlay), values), release, connectionFlags(driver)),
      );
    expect(Object.fromEntries(keyed((await Promise.all(made)).flat()))).toEqual(Object.fromEntries(wanted));
  });
});
