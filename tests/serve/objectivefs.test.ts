import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "../../scripts/build.ts";
import { mountCapability } from "../../scripts/client.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox, type Sandbox } from "../../scripts/sandbox.ts";
import { accessKey, environment, FakeObjectiveFs, passphrase, secretKey } from "../fakes/mount-objectivefs.ts";
import { isHostRoot } from "../root.ts";
import { codeOf, failureOf, status, World } from "./world.ts";

// The executable with an object store and folders of this machine, behind one driver name.

let sandbox: Sandbox;
let fake: FakeObjectiveFs;
let world: World;
const secrets = Object.fromEntries(Object.entries(environment).map(([name, value]) => [`env.${name}`, value]));

beforeAll(async () => {
  sandbox = await makeSandbox("off", ["one"]);
  fake = await FakeObjectiveFs.at(join(sandbox.folder, "ofs"));
  const file = { driver: "objectivefs", instance_id: "i1", objectivefs: { pool: "csi", env: environment } };
  await writeFile(join(sandbox.connections, "ofs.yaml"), JSON.stringify(file));
  const command = [await build()] as const;
  const env = { PATH: `${fake.bin}:${process.env["PATH"]}` };
  world = await World.on(sandbox, () => startDaemon({ command, sandbox, env }));
}, 120_000);
afterAll(async () => {
  expect(await world.end()).toEqual([]);
});

const make = async (name: string, connection = "ofs") => {
  const { volume } = await world.create(name, connection, { capacityRange: { requiredBytes: 1n << 30n } });
  if (!volume) throw new Error("no volume");
  return volume;
};

test("volumes in the object store and on this machine are made, listed and deleted side by side", async () => {
  const volume = await make("pvc-1");
  const local = await make("pvc-2", "one");
  expect(volume).toMatchObject({
    volumeId: "v:ofs/pvc-1",
    capacityBytes: 1n << 30n,
    volumeContext: {
      node_attach_driver: "objectivefs",
      provisioner_driver: "objectivefs",
      provisioner_driver_instance_id: "i1",
      "env.OBJECTSTORE": "minio://",
    },
  });
  expect(await make("pvc-1")).toEqual(volume);
  expect(await codeOf(world.create("pvc-1", "ofs", { capacityRange: { requiredBytes: 2n << 30n } }))).toBe(
    status.alreadyExists,
  );
  const { entries } = await world.controller("listVolumes", {});
  expect(entries.map(each => each.volume?.volumeId).sort()).toEqual([local.volumeId, volume.volumeId].sort());
  const snapshot = world.controller("createSnapshot", { name: "snap", sourceVolumeId: volume.volumeId });
  expect((await failureOf(snapshot)).details).toContain('connection "ofs" (driver objectivefs) cannot take snapshots');
  for (const { volumeId } of [volume, local, volume]) await world.controller("deleteVolume", { volumeId });
  expect(await fake.filesystems("csi")).toEqual([]);
});

describe.skipIf(!isHostRoot)("a node", () => {
  test("mounts a volume without its connection's file, across a restart, and no log shows a key", async () => {
    const { volumeId, volumeContext } = await make("pvc-node");
    const file = join(sandbox.connections, "ofs.yaml");
    const kept = await readFile(file, "utf8");
    await rm(file);
    const stagingTargetPath = join(sandbox.folder, "node", "staging");
    const targetPath = join(sandbox.folder, "node", "target");
    await mkdir(stagingTargetPath, { recursive: true });
    const common = { volumeId, volumeContext, volumeCapability: mountCapability, stagingTargetPath };
    await world.node("nodeStageVolume", { ...common, secrets });
    await world.node("nodePublishVolume", { ...common, targetPath });
    await writeFile(join(targetPath, "file"), "written");
    await world.daemon.stop();
    await world.restart();
    await world.node("nodeStageVolume", { ...common, secrets });
    expect(await readFile(join(targetPath, "file"), "utf8")).toBe("written");
    await world.node("nodeUnpublishVolume", { volumeId, targetPath });
    await world.node("nodeUnstageVolume", { volumeId, stagingTargetPath });
    await writeFile(file, kept);
    const log = await world.daemon.log();
    for (const secret of [accessKey, secretKey, passphrase]) expect(log).not.toContain(secret);
    await world.daemon.stop();
    await world.restart();
    await world.controller("deleteVolume", { volumeId });
    expect(await fake.filesystems("csi")).toEqual([]);
  });
});

test("without its program every call of the connection says so, and the other connection serves", async () => {
  const program = join(fake.bin, "mount.objectivefs");
  const kept = await readFile(program);
  await rm(program);
  const failure = await failureOf(make("pvc-3"));
  expect([failure.code, failure.details]).toEqual([
    status.failedPrecondition,
    expect.stringContaining("mount.objectivefs: there is no such program"),
  ]);
  const { volumeId } = await make("pvc-4", "one");
  await world.controller("deleteVolume", { volumeId });
  await writeFile(program, kept, { mode: 0o755 });
});
