import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "../../scripts/build.ts";
import { inMachine, kubeconfig } from "../../scripts/cluster/machine.ts";
import { state } from "../../scripts/cluster/place.ts";
import { kill } from "../../scripts/cluster/processes.ts";
import { deployCentral, drivers, undeploy } from "./deploy.ts";
import { apply, bound, eventually, find, get, kube, list, type Resource, remove, warnings } from "./kube.ts";
import { tidy } from "./left.ts";
import { statefulSet, storageClass } from "./objects.ts";
import { csimux } from "./processes.ts";
import { startZfsHost, stopZfsHost, type ZfsHost } from "./scenes/zfs-host.ts";

// The claims of a StatefulSet are deleted and made again from the same manifests. The kernel has no NFS client, so the pods are never
// scheduled, and the data is written and read on the storage.

const claims = ["data-db-0", "data-db-1", "data-db-2"] as const;
const [, inUse] = claims;

const set = statefulSet("db", "kept", {}, { nodeSelector: { "example.org/nfs": "yes" } });

const plugin = join(state, "kubectl-csimux");
const manifest = join(state, "lost.yaml");
let nas: ZfsHost;

beforeAll(async () => {
  nas = await startZfsHost();
  await rm(plugin, { force: true });
  await symlink(await build(), plugin);
  await deployCentral({ connections: { nas: nas.connection } });
  const parameters = { connection: "nas", deleteStrategy: "retain", adopt: "byClaim" };
  await apply(storageClass("kept", drivers.central, "nas", { parameters, volumeBindingMode: "Immediate" }));
});
afterEach(async () => {
  nas.open(undefined);
  await withoutSet();
  await tidy();
});
afterAll(async () => {
  await kube("delete", "storageclass", "kept");
  await undeploy("cluster");
  await stopZfsHost();
  for (const file of [plugin, manifest]) await rm(file, { force: true });
});

/** Deletes the set with its claims, and waits for the end of their PersistentVolumes unless those have the policy Retain. */
async function withoutSet(): Promise<void> {
  await remove("statefulset", "db");
  await remove("pvc", ...claims);
  const retained = (await list("pv")).filter(({ spec }) => spec.persistentVolumeReclaimPolicy === "Retain");
  if (retained.length > 0) await kube("delete", "pv", ...retained.map(({ metadata }) => metadata.name));
  await eventually("no PersistentVolume is left", 120_000, async () => (await list("pv")).length === 0);
}

async function setPolicy(policy: "Retain" | "Delete"): Promise<void> {
  const patch = JSON.stringify({ spec: { persistentVolumeReclaimPolicy: policy } });
  for (const { metadata } of await list("pv")) await kube("patch", "pv", metadata.name, "-p", patch);
}

const volumeOf = async (claim: string): Promise<Resource> => get("pv", (await get("pvc", claim)).spec.volumeName);

/** The handles of the claims' volumes. */
async function handles(): Promise<readonly string[]> {
  await bound(...claims);
  return (await Promise.all(claims.map(volumeOf))).map(({ spec }) => spec.csi.volumeHandle);
}

const idOf = (handle = ""): string => handle.replace("v:nas/", "");
const fileOf = (handle: string): string => join(nas.volumes, idOf(handle), "log");

/** Applies the set, and writes the name of each claim into its volume. */
async function written(): Promise<readonly string[]> {
  await apply(set);
  const all = await handles();
  for (const [index, handle] of all.entries()) await writeFile(fileOf(handle), claims[index] ?? "");
  return all;
}

/** The claims have these volumes, with the data from before, and the storage has no other one. */
async function areAgain(before: readonly string[]): Promise<void> {
  expect(await handles()).toEqual([...before]);
  expect(await Promise.all(before.map(handle => readFile(fileOf(handle), "utf8")))).toEqual([...claims]);
  expect((await readdir(nas.volumes)).sort()).toEqual(before.map(idOf).sort());
}

test("claims that are deleted and applied again have the same volumes with the same data, also if csimux is killed", async () => {
  const before = await written();
  const old = (await list("pv")).map(({ metadata }) => metadata.name);
  await withoutSet();
  expect(kill(await csimux("controller"))).toBeGreaterThan(0);
  await apply(set);
  await areAgain(before);
  const now = (await list("pv")).map(({ metadata }) => metadata.name);
  expect(now.filter(name => old.includes(name))).toEqual([]);
});

test("a volume that a client still uses is refused, with the reason at its claim, until the client has ended", async () => {
  const before = await written();
  await withoutSet();
  nas.open(idOf(before[1]));
  await apply(set);
  await eventually("the claim says why it waits", 120_000, async () =>
    (await warnings(inUse)).some(text => text.includes("hold files in")),
  );
  await bound(...claims.filter(name => name !== inUse));
  expect((await find("pvc", inUse))?.status.phase).toBe("Pending");
  expect((await readdir(nas.volumes)).length).toBe(before.length);
  nas.open(undefined);
  await areAgain(before);
});

test.each([
  ["PersistentVolumes and claims", /^kind: /m],
  ["PersistentVolumes, and the set makes its own claims", /^kind: PersistentVolume$/m],
])("after the loss of all objects, which gives up nothing, adopt --all prints what binds: %s", async (_, part) => {
  const before = await written();
  await setPolicy("Retain");
  await withoutSet();
  const argv = ["env", "KUBECACHEDIR=/run/cluster/state/kubectl", plugin, "volumes", "adopt", "--all"];
  const { code, stdout, stderr } = await inMachine([...argv, "--kubeconfig", kubeconfig], 300_000);
  expect([code, stderr]).toEqual([0, ""]);
  const documents = stdout.split(/^---\n/m).filter(text => part.test(text));
  await writeFile(manifest, documents.join("---\n"));
  await kube("create", "-f", manifest);
  await apply(set);
  await areAgain(before);
  // The claims give the volumes up, so that the next case has no second volume for each.
  await setPolicy("Delete");
});
