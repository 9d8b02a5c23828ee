import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { mkdir, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "../../scripts/build.ts";
import { inMachine } from "../../scripts/cluster/machine.ts";
import { state } from "../../scripts/cluster/place.ts";
import { byNode, dataOutside, deployCentral, drivers, undeploy } from "./deploy.ts";
import { apply, bound, eventually, find, inPod, kube, list, remove, running } from "./kube.ts";
import { claim, pod, storageClass } from "./objects.ts";
import { tidy } from "./scenes/left.ts";

const plugin = join(state, "kubectl-csimux");
const manifest = join(state, "volumes.yaml");

/** Runs `kubectl csimux` in the machine. */
const csimux = (...words: readonly string[]) =>
  inMachine(
    [
      "env",
      "KUBECACHEDIR=/run/cluster/state/kubectl",
      plugin,
      ...words,
      "--kubeconfig",
      "/run/cluster/state/admin.kubeconfig",
    ],
    300_000,
  );

/** Creates the manifests that csimux printed. */
async function create(text: string): Promise<void> {
  await writeFile(manifest, text);
  await kube("create", "-f", manifest);
}

beforeAll(async () => {
  await rm(plugin, { force: true });
  await symlink(await build(), plugin);
  await deployCentral(byNode);
  await apply(storageClass("fast", drivers.central, "fast"), storageClass("none", drivers.central, "nowhere"));
});
afterEach(() => tidy());
afterAll(async () => {
  await kube("delete", "storageclass", "fast", "none");
  await undeploy("cluster");
  for (const file of [plugin, manifest]) await rm(file, { force: true });
});

test("a folder that a person made is adopted, bound and mounted, and its data outlives claim and PersistentVolume", async () => {
  const folder = join(dataOutside, "fast/v/photos");
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "f"), "theirs\n");
  expect((await csimux("volumes", "orphans")).stdout).toContain("photos");
  const { stdout, stderr } = await csimux("volumes", "adopt", "fast", "photos", "--claim", "default/photos");
  expect(stderr).toBe("");
  await create(stdout);
  await bound("photos");
  await apply(pod("reader", "photos"));
  await running("reader");
  expect(await inPod("reader", "cat /data/f")).toBe("theirs\n");
  expect((await csimux("volumes", "adopt", "fast", "photos")).stderr).toContain("used by the PersistentVolume photos");
  expect((await csimux("explain", "default/photos")).stdout).toContain("Nothing is wrong");
  await remove("pod", "reader");
  await remove("pvc", "photos");
  await kube("delete", "pv", "photos", "--timeout=120s");
  expect(await readFile(join(folder, "f"), "utf8")).toBe("theirs\n");
  await rm(folder, { recursive: true });
});

test("what orphans --print-delete prints deletes exactly the orphans, once a person creates it", async () => {
  await apply(claim("kept", "fast"), pod("user", "kept", { run: "echo mine > /data/f" }));
  await running("user");
  await mkdir(join(dataOutside, "fast/v/orphan"), { recursive: true });
  const { stdout } = await csimux("volumes", "orphans", "--print-delete");
  const names = async () => (await readdir(join(dataOutside, "fast/v"))).length;
  expect(await names()).toBe(2);
  await create(stdout);
  await eventually("the orphan is deleted", 120_000, async () => (await names()) === 1);
  await eventually(
    "its PersistentVolume is gone",
    120_000,
    async () => !(await list("pv")).some(({ metadata }) => metadata.name.startsWith("delete-")),
  );
  expect(await inPod("user", "cat /data/f")).toBe("mine\n");
});

test("a lost volume is listed, and explain says that its storage is gone", async () => {
  await apply(claim("a", "fast"), pod("first", "a"));
  await running("first");
  const { metadata } = await bound("a");
  await remove("pod", "first");
  await rm(join(dataOutside, "fast/v", metadata.name), { recursive: true });
  const { stdout, code } = await csimux("volumes");
  expect(stdout).toMatch(/fast +\S+ +\S+( \S+)? +lost +default\/a/);
  expect(code).toBe(1);
  expect((await csimux("explain", "default/a")).stdout).toContain("It hangs here: storage:");
});

test("explain says why a claim is pending; status, topology and bundle run in the pods", async () => {
  await apply(claim("b", "none"), pod("waits", "b"));
  const explained = await eventually("the reason", 60_000, async () => {
    const { stdout } = await csimux("explain", "default/b");
    return stdout.includes("It hangs here") && stdout;
  });
  expect(explained).toContain('csimux has no connection or group "nowhere"');
  expect((await csimux("status", "-o", "json")).stdout).toContain(`"name": "${drivers.central}"`);
  expect((await csimux("topology")).stdout).toContain("fast");
  const report = (await csimux("bundle", "-")).stdout;
  for (const each of ["pod storage/csimux-controller", "pod storage/csimux-node"]) expect(report).toContain(each);
  expect(await find("pvc", "b")).toBeDefined();
});
