import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { state } from "../../scripts/cluster/place.ts";
import { eventually, kube, list } from "./kube.ts";

const manifests = new URL("../../examples/kubernetes", import.meta.url).pathname;

/** A copy of examples/kubernetes, as its README describes; the machine has it at another path. */
const copy = join(state, "deploy");
const seen = "/run/cluster/state/deploy";

/** The namespace of the manifests. */
export const namespace = "storage";

/** The driver's names in the manifests. */
export const drivers = { central: "csimux.storage", local: "csimux.storage-local" } as const;

/** The folder of the central connections' volumes, at the same path in the machine and the containers. */
export const data = "/var/lib/csimux/data";

/** Its path outside the machine. */
export const dataOutside = join(state, "csimux/data");

/** Settings of a central deployment. */
export interface Central {
  /** Connection files by name. */
  readonly connections: Readonly<Record<string, string>>;
  /** Lines below "proxy:" of the main file, each with its indentation. */
  readonly proxy?: readonly string[];
  /** A main file with a single driver, as in democratic-csi, instead. */
  readonly single?: string;
  /** The driver's name, if different from the manifests. */
  readonly name?: string;
  /** False for `attachRequired: false` and no csi-attacher, as in a deployment for shares only. */
  readonly attaching?: boolean;
  /** A patch of the node plugin. */
  readonly node?: string;
  /** Whether the component snapshot-metadata is included. */
  readonly changedBlocks?: boolean;
}

/** The folder to apply: one of the manifests, or central with the folder of the volumes. */
type Applied = "node-local" | "central-non-root" | "cluster";

/** A connection with folders below `data` as volumes; `more` is added to the file. */
export const folderConnection = (name: string, more: readonly string[] = []): string =>
  [
    "driver: local-hostpath",
    "local-hostpath:",
    `  shareBasePath: ${data}/${name}`,
    `  controllerBasePath: ${data}/${name}`,
    ...more,
    "",
  ].join("\n");

/** Volumes that stay on their node, and a group of both connections. */
export const byNode: Central = {
  connections: { fast: folderConnection("fast"), archive: folderConnection("archive") },
  proxy: [
    "  nodeTopology:",
    "    type: node",
    "  groups:",
    "    both:",
    "      members: [fast, archive]",
    "      policy: spread",
  ],
};

/** Mounts the folder of the volumes, which replaces a storage system, into controller and node plugin. */
export const sharedFolder = (kind: string, name: string): string => `apiVersion: apps/v1
kind: ${kind}
metadata:
  name: ${name}
  namespace: ${namespace}
spec:
  template:
    spec:
      containers:
        - name: csimux
          volumeMounts:
            - name: data
              mountPath: ${data}
              mountPropagation: Bidirectional
      volumes:
        - name: data
          hostPath:
            path: ${data}
            type: DirectoryOrCreate
`;

/** Replaces text in a file of the copy. */
async function edit(path: string, from: string, to: string): Promise<void> {
  const file = join(copy, path);
  await writeFile(file, (await readFile(file, "utf8")).replace(from, to));
}

async function writeCentral({
  connections,
  proxy = [],
  single,
  name,
  attaching = true,
  node,
  changedBlocks,
}: Central): Promise<void> {
  const folder = join(copy, "central");
  const names = Object.keys(connections);
  await rm(join(folder, "connections"), { recursive: true });
  await mkdir(join(folder, "connections"));
  for (const [name, text] of Object.entries(connections))
    await writeFile(join(folder, "connections", `${name}.yaml`), text);
  for (const name of names) await mkdir(join(dataOutside, name), { recursive: true });
  const listed = names.map(name => `- connections/${name}.yaml`).join("\n      ");
  await edit("central/kustomization.yaml", "- connections/nas.yaml", listed || "[]");
  await writeFile(
    join(folder, "proxy.yaml"),
    single ?? ["driver: proxy", "proxy:", "  configFolder: /connections", ...proxy, ""].join("\n"),
  );
  if (name !== undefined) await edit("central/settings.yaml", `driver: ${drivers.central}`, `driver: ${name}`);
  if (proxy.some(line => line.includes("source: nodeLabel")))
    await edit("central/kustomization.yaml", "# - ../node-labels", "- ../node-labels");
  if (changedBlocks) await edit("central/kustomization.yaml", "# - ../snapshot-metadata", "- ../snapshot-metadata");
  if (!attaching) {
    await edit("base/csidriver.yaml", "\n  attachRequired: true", "\n  attachRequired: false");
    await edit("central/kustomization.yaml", "  - ../attach\n", "");
  }
  const own = join(copy, "cluster");
  await mkdir(own, { recursive: true });
  await writeFile(join(own, "controller.yaml"), sharedFolder("Deployment", "csimux-controller"));
  await writeFile(join(own, "node.yaml"), sharedFolder("DaemonSet", "csimux-node"));
  if (node !== undefined) await writeFile(join(own, "more.yaml"), node);
  const patches = ["controller", "node", ...(node === undefined ? [] : ["more"])].map(name => ({
    path: `${name}.yaml`,
  }));
  await writeFile(join(own, "kustomization.yaml"), JSON.stringify({ resources: ["../central"], patches }));
}

async function freshCopy(): Promise<void> {
  await rm(copy, { recursive: true, force: true });
  await cp(manifests, copy, { recursive: true });
  for (const name of ["central", "node-local"])
    await edit(`${name}/kustomization.yaml`, "newName: registry.example.org/", "newName: localhost/");
  await kube("apply", "-f", `${seen}/namespace.yaml`);
}

/** Waits until the newest version of csimux's workloads runs, and kubelet has accepted the drivers. */
export async function settled(...names: readonly string[]): Promise<void> {
  const workloads = await list("deploy,ds", namespace);
  for (const { kind, metadata } of workloads)
    await kube("-n", namespace, "rollout", "status", `${kind}/${metadata.name}`, "--timeout=240s");
  await eventually(`kubelet has taken ${names.join(", ")}`, 120_000, async () => {
    const taken = (await list("csinode")).flatMap(({ spec }) =>
      (spec.drivers ?? []).map((each: { name: string }) => each.name),
    );
    return names.every(name => taken.includes(name));
  });
}

/** Installs node-local unchanged from examples/kubernetes. */
export async function deployLocal(): Promise<void> {
  await freshCopy();
  await kube("apply", "-k", `${seen}/node-local`);
  await settled(drivers.local);
}

/** Applies the manifests of central with the test's connections, without waiting. Pods see changed connection files within two minutes. */
export async function applyCentral(settings: Central, applied: Applied = "cluster"): Promise<void> {
  await freshCopy();
  await writeCentral(settings);
  await kube("apply", "-k", `${seen}/${applied}`);
}

/** Installs central with the test's connections. */
export async function deployCentral(settings: Central, applied: Applied = "cluster"): Promise<void> {
  await applyCentral(settings, applied);
  await settled(settings.name ?? drivers.central);
}

/** Uninstalls csimux and deletes its namespace. */
export async function undeploy(which: Applied): Promise<void> {
  await kube("delete", "-k", `${seen}/${which}`, "--ignore-not-found", "--timeout=240s");
  await kube("delete", "namespace", namespace, "--ignore-not-found", "--timeout=240s");
}
