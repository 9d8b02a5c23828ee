import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "../../scripts/build.ts";
import { inMachine, kubeconfig } from "../../scripts/cluster/machine.ts";
import { state } from "../../scripts/cluster/place.ts";
import { kill } from "../../scripts/cluster/processes.ts";
import { deployCentral, drivers, undeploy } from "./deploy.ts";
import {
  apply,
  bound,
  eventually,
  find,
  get,
  inPod,
  kube,
  list,
  type Resource,
  remove,
  running,
  warnings,
} from "./kube.ts";
import { statefulSet, storageClass } from "./objects.ts";
import { tidy } from "./scenes/left.ts";
import { newCluster } from "./scenes/new-cluster.ts";
import { nfsClient } from "./scenes/nfs-client.ts";
import { csimux } from "./scenes/processes.ts";
import { startZfsHost, stopZfsHost, type ZfsHost } from "./scenes/zfs-host.ts";

// The claims of a StatefulSet are deleted and made again from the same manifests, also in a cluster that knows nothing of the first one. Its pods
// write and read the data.

const pods = ["db-0", "db-1", "db-2"] as const;
const claims = ["data-db-0", "data-db-1", "data-db-2"] as const;
const [, inUse] = claims;

const command = ["sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait $!"];
const set = statefulSet("db", "kept", { command }, { terminationGracePeriodSeconds: 2 });

const plugin = join(state, "kubectl-csimux");
const manifest = join(state, "lost.yaml");
let nas: ZfsHost;

beforeAll(async () => {
  nas = await startZfsHost();
  await rm(plugin, { force: true });
  await symlink(await build(), plugin);
  await deploy();
});
afterEach(async () => {
  nas.open(undefined);
  await withoutSet();
  await tidy();
});
afterAll(async () => {
  await withoutCsimux();
  await stopZfsHost();
  for (const file of [plugin, manifest]) await rm(file, { force: true });
});

/** Applies the manifests of csimux, and the class. */
async function deploy(): Promise<void> {
  await deployCentral({ connections: { nas: nas.connection }, node: await nfsClient() });
  const parameters = { connection: "nas", deleteStrategy: "retain", adopt: "byClaim" };
  await apply(storageClass("kept", drivers.central, "nas", { parameters, volumeBindingMode: "Immediate" }));
}

async function withoutCsimux(): Promise<void> {
  await kube("delete", "storageclass", "kept");
  await undeploy("cluster");
}

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

/** Applies the set, whose pods write the names of their claims into their volumes. */
async function written(): Promise<readonly string[]> {
  await apply(set);
  const all = await handles();
  await running(...pods);
  for (const [index, pod] of pods.entries()) await inPod(pod, `printf %s ${claims[index]} > /data/log; sync`);
  return all;
}

/** What these pods of the set read. */
async function readBy(...names: readonly string[]): Promise<readonly string[]> {
  await running(...names);
  return Promise.all(names.map(name => inPod(name, "cat /data/log")));
}

/** The claims have these volumes, whose pods read the data from before, and the storage has no other one. */
async function areAgain(before: readonly string[]): Promise<void> {
  expect(await handles()).toEqual([...before]);
  expect(await readBy(...pods)).toEqual([...claims]);
  expect(await Promise.all(before.map(handle => readFile(fileOf(handle), "utf8")))).toEqual([...claims]);
  expect((await readdir(nas.volumes)).sort()).toEqual(before.map(idOf).sort());
}

/** This claim says why it waits, and the others do not. */
async function waits(claim: string): Promise<void> {
  await eventually("the claim says why it waits", 120_000, async () =>
    (await warnings(claim)).some(text => text.includes("hold files in")),
  );
  await bound(...claims.filter(name => name !== claim));
  expect((await find("pvc", claim))?.status.phase).toBe("Pending");
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

test("a new cluster with the same manifests has the same volumes, whose pods read their data; what another cluster still uses waits", async () => {
  const before = await written();
  const [lost] = await list("nodes");
  await withoutSet();
  await withoutCsimux();
  await newCluster();
  expect((await list("nodes")).map(({ metadata }) => metadata.uid)).not.toContain(lost?.metadata.uid);
  nas.open(idOf(before[1]));
  await deploy();
  await apply(set);
  expect(kill(await csimux("controller"))).toBeGreaterThan(0);
  await waits(inUse);
  expect(await readBy("db-0", "db-2")).toEqual(["data-db-0", "data-db-2"]);
  expect(kill(await csimux("controller"))).toBeGreaterThan(0);
  nas.open(undefined);
  await areAgain(before);
});

test("a volume that a client still uses is refused, with the reason at its claim, until the client has ended", async () => {
  const before = await written();
  await withoutSet();
  nas.open(idOf(before[1]));
  await apply(set);
  await waits(inUse);
  expect((await readdir(nas.volumes)).length).toBe(before.length);
  nas.open(undefined);
  await areAgain(before);
});

/** Creates what adopt --all prints, or the objects of it that have this text. */
async function adoptAll(part: RegExp): Promise<void> {
  const argv = ["env", "KUBECACHEDIR=/run/cluster/state/kubectl", plugin, "volumes", "adopt", "--all"];
  const { code, stdout, stderr } = await inMachine([...argv, "--kubeconfig", kubeconfig], 300_000);
  expect([code, stderr]).toEqual([0, ""]);
  const documents = stdout.split(/^---\n/m).filter(text => part.test(text));
  await writeFile(manifest, documents.join("---\n"));
  await kube("create", "-f", manifest);
}

test.each([
  ["PersistentVolumes and claims", /^kind: /m],
  ["PersistentVolumes, and the set makes its own claims", /^kind: PersistentVolume$/m],
])("after the loss of all objects, which gives up nothing, adopt --all prints what binds: %s", async (_, part) => {
  const before = await written();
  await setPolicy("Retain");
  await withoutSet();
  await adoptAll(part);
  await apply(set);
  await areAgain(before);
  // The claims give the volumes up, so that the next case has no second volume for each.
  await setPolicy("Delete");
});

test("after the loss of etcd while the pods run, adopt --all prints what binds, and the pods of the new cluster read the data", async () => {
  const before = await written();
  await newCluster();
  await deploy();
  await adoptAll(/^kind: /m);
  await apply(set);
  await areAgain(before);
  await setPolicy("Delete");
});
