import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parse, parseAllDocuments, stringify } from "yaml";
import { build } from "../../scripts/build.ts";
import { state } from "../../scripts/cluster/place.ts";
import { currentVersion } from "../../scripts/release/version.ts";
import { spawned } from "../../scripts/spawned.ts";
import { dataOutside, deployCentral, folderConnection, settled, sharedFolder, undeploy } from "./deploy.ts";
import { apply, bound, eventually, find, get, home, inPod, kube, list, ready, remove, running } from "./kube.ts";
import { claim, pod, snapshot } from "./objects.ts";
import { nothingLeft, tidy } from "./scenes/left.ts";
import { ask, grown } from "./scenes/life.ts";

/** The old driver name, and the new one. */
const old = "org.democratic-csi.one";
const driver = "csimux.storage";

/** The command's output folder, on the host and in the machine. */
const out = join(state, "takeover");
const seen = "/run/cluster/state/takeover";

const storageClass = {
  apiVersion: "storage.k8s.io/v1",
  kind: "StorageClass",
  metadata: { name: "old" },
  provisioner: old,
};
const classOptions = { reclaimPolicy: "Delete", allowVolumeExpansion: true, volumeBindingMode: "Immediate" };
const snapshotClass = {
  apiVersion: "snapshot.storage.k8s.io/v1",
  kind: "VolumeSnapshotClass",
  metadata: { name: "old-snapshots" },
  driver: old,
  deletionPolicy: "Delete",
};

/** Helm values of the old deployment. A folder replaces a storage system on the network. */
const values = {
  csiDriver: { name: old, fsGroupPolicy: "File" },
  storageClasses: [{ name: "old", ...classOptions, secrets: { "node-stage-secret": null } }],
  volumeSnapshotClasses: [{ name: "old-snapshots" }],
  driver: {
    config: {
      driver: "nfs-client",
      nfs: { shareHost: "nas.lan", shareBasePath: "/one", controllerBasePath: "/one", dirPermissionsMode: "0777" },
    },
  },
};

/** Runs csimux takeover into a folder and returns its output. */
async function takeover(folder: string, ...more: readonly string[]): Promise<string> {
  const file = join(state, "old-values.yaml");
  await writeFile(file, stringify(values));
  const flags = ["--values", file, "--release", `${home}/one`, "--name", driver];
  const images = ["--image", `localhost/csimux:${await currentVersion()}`];
  const argv = [await build(), "takeover", "--out", folder, ...flags, ...images, ...more] as const;
  const { code, stdout, stderr } = await spawned([...argv]);
  expect([code, stderr]).toEqual([0, ""]);
  return stdout;
}

/** Mounts the connection's folder of the machine into the containers. */
async function onFolder(): Promise<void> {
  const file = join(out, "connections-secret.yaml");
  const objects = parseAllDocuments(await readFile(file, "utf8")).map(each => each.toJS());
  objects[0].stringData = { "one.yaml": folderConnection("one") };
  await writeFile(file, objects.map(each => stringify(each)).join("---\n"));
  await writeFile(join(out, "patch-controller.yaml"), sharedFolder("Deployment", "csimux-controller"));
  await writeFile(join(out, "patch-node.yaml"), sharedFolder("DaemonSet", "csimux-node"));
  const kustomization = parse(await readFile(join(out, "kustomization.yaml"), "utf8"));
  kustomization.patches = [{ path: "patch-controller.yaml" }, { path: "patch-node.yaml" }];
  await writeFile(join(out, "kustomization.yaml"), stringify(kustomization));
}

beforeAll(async () => {
  await deployCentral({ connections: { one: "" }, single: folderConnection("one"), name: old });
  await apply({ ...storageClass, ...classOptions }, snapshotClass);
});
afterAll(async () => {
  await tidy();
  await kube("delete", "-k", seen, "--ignore-not-found", "--timeout=240s");
  for (const folder of [out, `${out}-volumes`]) await rm(folder, { recursive: true, force: true });
});

test("volumes of an old name keep working after csimux takeover: they are used, expanded, restored, deleted, and moved to the new name", async () => {
  await apply(claim("a", "old"), pod("before", "a", { run: "echo hello > /data/f; sync" }));
  await running("before");
  const volume = await bound("a");
  expect(volume.spec.csi.volumeHandle).toBe(volume.metadata.name);
  await eventually("it is written", 30_000, async () => (await inPod("before", "cat /data/f")) === "hello\n");
  await apply(snapshot("s", "a", "old-snapshots"));
  await ready("s");

  // Like helm uninstall: removes the whole old deployment, including its classes. The pod keeps running.
  await kube("delete", "storageclass", "old");
  await kube("delete", "volumesnapshotclass", "old-snapshots");
  await undeploy("cluster");
  expect(await inPod("before", "cat /data/f")).toBe("hello\n");

  await rm(out, { recursive: true, force: true });
  expect(await takeover(out)).toContain("no problems in");
  await onFolder();
  await kube("apply", "-k", seen);
  await settled(old, driver);
  expect(await inPod("before", "cat /data/f")).toBe("hello\n");

  await apply(pod("beside", "a"));
  await running("beside");
  expect(await inPod("beside", "cat /data/f")).toBe("hello\n");
  await remove("pod", "before", "beside");
  await ask("a", "128Mi");
  await grown("a", "128Mi");
  await apply(claim("b", "old", { size: "128Mi", from: { snapshot: "s" } }), pod("b", "b"));
  await apply(claim("c", "old", { size: "128Mi", from: { claim: "a" } }), pod("c", "c"));
  await running("b", "c");
  for (const name of ["b", "c"]) expect(await inPod(name, "cat /data/f")).toBe("hello\n");
  const made = await bound("b");
  expect([made.spec.csi.driver, made.spec.csi.volumeHandle]).toEqual([old, made.metadata.name]);
  await remove("pod", "b", "c");
  await remove("pvc", "b", "c");
  await eventually("b is gone", 120_000, async () => (await find("pv", made.metadata.name)) === undefined);

  await moveToNewName(volume.metadata.name);
  await apply(pod("after", "a"));
  await running("after");
  expect(await inPod("after", "cat /data/f")).toBe("hello\n");
  expect((await get("pv", volume.metadata.name)).spec.csi).toMatchObject({
    driver,
    volumeHandle: `v:one/${volume.metadata.name}`,
  });
  await remove("pod", "after");
  await remove("volumesnapshot", "s");
  await remove("pvc", "a");
  await nothingLeft();
});

/** Runs the commands in the volume's file. */
async function moveToNewName(name: string): Promise<void> {
  const pvs = join(state, "pvs.json");
  await writeFile(pvs, JSON.stringify({ apiVersion: "v1", kind: "List", items: await list("pv") }));
  const folder = `${out}-volumes`;
  await rm(folder, { recursive: true, force: true });
  await takeover(folder, "--print-pvs", pvs);
  expect(await readdir(join(folder, "persistent-volumes"))).toEqual([`${name}.yaml`]);
  const text = await readFile(join(folder, "persistent-volumes", `${name}.yaml`), "utf8");
  const commands = [...text.matchAll(/^# .*?kubectl ((?:patch|delete) pv .*)$/gm)].map(([, line = ""]) => line);
  expect(commands.map(line => line.split(" ")[0])).toEqual(["patch", "delete", "patch", "patch"]);
  const [retain = "", removal = "", finalizers = "", policy = ""] = commands.map(line => line.replaceAll("'", ""));
  await kube(...retain.split(" "));
  expect((await get("pv", name)).spec.persistentVolumeReclaimPolicy).toBe("Retain");
  await kube(...removal.split(" "));
  await kube(...finalizers.split(" "));
  await eventually("the old object is gone", 60_000, async () => (await find("pv", name)) === undefined);
  await kube("create", "-f", `${seen}-volumes/persistent-volumes/${name}.yaml`);
  await eventually("the claim is bound again", 120_000, async () => (await get("pvc", "a")).status.phase === "Bound");
  await kube(...policy.split(" "));
  expect((await readdir(join(dataOutside, "one/v"))).includes(name)).toBe(true);
}
