import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Node } from "../../lib/csi/services.ts";
import { build } from "../../scripts/build.ts";
import { type CsiClient, csiClient, mountCapability } from "../../scripts/client.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox } from "../../scripts/sandbox.ts";
import { MountProgram } from "../fakes/mount-program.ts";
import { type FakeZfs, fakeZfs } from "../fakes/zfs/pools.ts";
import { codeOf, status, World } from "./world.ts";

// The executable on a node whose zfs is the model, and whose mount(8) mounts a ramfs in place of a dataset.

let fake: FakeZfs;
let world: World;
/** A client of the name that democratic-csi had, which stands for the connection. */
let alias: CsiClient;

const old = "org.democratic-csi.inline";

const file = `driver: zfs-local-ephemeral-inline
zfs:
  datasetParentName: tank/inline
  properties:
    refquota:
      value: 10M
      allowOverride: false
`;

beforeAll(async () => {
  fake = await fakeZfs();
  const mount = await MountProgram.at(join(fake.folder, "mount"));
  const sandbox = await makeSandbox("off", ["one"]);
  await writeFile(join(sandbox.connections, "scratch.yaml"), file);
  const env = { PATH: `${mount.folder}:${fake.bin}:/usr/sbin:/usr/bin:/sbin:/bin` };
  const command = [await build()] as const;
  world = await World.on(sandbox, () => startDaemon({ command, sandbox, env, flags: ["--alias", `${old}=scratch`] }));
  alias = csiClient(join(sandbox.folder, `${old}.sock`));
}, 120_000);
afterAll(async () => {
  alias.close();
  expect(await world.end()).toEqual([]);
  await fake.close();
});

const volumeId = `csi-${"0f".repeat(32)}`;
const name = `tank/inline/v/${volumeId}`;
const targetPath = () => join(world.sandbox.folder, "mount", "web");
const publish = (attributes: Readonly<Record<string, string>>) =>
  world.node("nodePublishVolume", {
    volumeId,
    targetPath: targetPath(),
    volumeCapability: mountCapability,
    volumeContext: { "csi.storage.k8s.io/ephemeral": "true", ...attributes },
  });
const unpublish = () => world.node("nodeUnpublishVolume", { volumeId, targetPath: targetPath() });

test("a pod's own volume is a dataset while the pod is there, whichever process serves the node", async () => {
  await publish({ connection: "scratch", size: "1Ti", "property.compression": "lz4" });
  await writeFile(join(targetPath(), "note"), "of the pod");
  await publish({ connection: "scratch", size: "1Ti", "property.compression": "lz4" });
  expect(await readFile(join(targetPath(), "note"), "utf8")).toBe("of the pod");
  const { own = {} } = fake.find(name) ?? {};
  expect([own["refquota"]?.value, own["compression"]?.value, own["mountpoint"]?.value]).toEqual([
    ...["10485760", "lz4", "legacy"],
  ]);
  await world.daemon.stop();
  await world.restart();
  await unpublish();
  await unpublish();
  expect(fake.find(name)).toBeUndefined();
}, 60_000);

const alone = () => join(world.sandbox.folder, "pods/1/volumes/kubernetes.io~csi/web/mount");

test("under a name that stands for the connection, a pod needs not name that", async () => {
  await alias.call(Node.method.nodePublishVolume, {
    volumeId,
    targetPath: alone(),
    volumeCapability: mountCapability,
    volumeContext: { "csi.storage.k8s.io/ephemeral": "true", size: "1Mi" },
  });
  expect(fake.find(name)).toBeDefined();
  await alias.call(Node.method.nodeUnpublishVolume, { volumeId, targetPath: alone() });
  expect(fake.find(name)).toBeUndefined();
}, 60_000);

test("a volume that democratic-csi has published is removed with its pod, under either name", async () => {
  const owner = "democratic-csi:volume_context_provisioner_driver=zfs-local-ephemeral-inline";
  const marks = ["democratic-csi:managed_resource=true", `democratic-csi:csi_volume_name=${volumeId}`, owner];
  for (const [driverName, client] of [
    [old, alias],
    ["csimux.example", world.client],
  ] as const) {
    fake.zfs("create", "-p", ...marks.flatMap(mark => ["-o", mark]), name);
    await mkdir(alone(), { recursive: true });
    const told = { driverName, volumeHandle: volumeId, volumeLifecycleMode: "Ephemeral" };
    await writeFile(join(dirname(alone()), "vol_data.json"), JSON.stringify(told));
    expect(Bun.spawnSync(["mount", "-t", "ramfs", name, alone()]).exitCode).toBe(0);
    await client.call(Node.method.nodeUnpublishVolume, { volumeId, targetPath: alone() });
    expect(fake.find(name)).toBeUndefined();
  }
}, 60_000);

test("a volume that names no connection, none that is there, or one that makes no such volumes, is refused", async () => {
  expect(await codeOf(publish({}))).toBe(status.invalidArgument);
  expect(await codeOf(publish({ connection: "absent" }))).toBe(status.unavailable);
  expect(await codeOf(publish({ connection: "one" }))).toBe(status.invalidArgument);
  expect(await codeOf(publish({ connection: "scratch", "property.sharenfs": "on" }))).toBe(status.invalidArgument);
  expect(fake.with(pools => pools.all().some(each => each.name === name))).toBe(false);
  await unpublish();
}, 60_000);
