import { afterEach, expect, test } from "bun:test";
import { existsSync, readdirSync, statSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { Registration } from "../../lib/csi/gen/pluginregistration/v1/registration_pb.ts";
import { Controller, Identity, Node } from "../../lib/csi/services.ts";
import { build } from "../../scripts/build.ts";
import { type CsiClient, csiClient, mountCapability } from "../../scripts/client.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox } from "../../scripts/sandbox.ts";
import { pause } from "../waiting.ts";
import { codeOf, failureOf, mebibytes, status, World } from "./world.ts";

const old = "org.democratic-csi.one";
const ending: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0)) await end();
});

/** A csimux of two connections that answers to the name of the driver that connection "one" was, and a client of each name. */
async function served(flags: readonly string[] = []) {
  const sandbox = await makeSandbox("off", ["one", "two"]);
  const command = [await build()] as const;
  const world = await World.on(sandbox, () =>
    startDaemon({ command, sandbox, flags: ["--alias", `${old}=one`, ...flags] }),
  );
  const alias = csiClient(join(sandbox.folder, `${old}.sock`));
  ending.push(async () => {
    alias.close();
    expect(await world.end()).toEqual([]);
  });
  return { world, alias };
}

type ControllerMethods = typeof Controller.method;

const controller = <K extends keyof ControllerMethods>(
  client: CsiClient,
  method: K,
  request: MessageInitShape<ControllerMethods[K]["input"]>,
): Promise<MessageShape<ControllerMethods[K]["output"]>> =>
  client.call(Controller.method[method] as DescMethodUnary, request as never) as never;

const create = (client: CsiClient, name: string, parameters: Record<string, string> = {}, more: object = {}) =>
  controller(client, "createVolume", {
    name,
    volumeCapabilities: [mountCapability],
    capacityRange: mebibytes(1),
    parameters,
    ...more,
  });

const listed = async (client: CsiClient) =>
  (await controller(client, "listVolumes", {})).entries.map(({ volume }) => volume?.volumeId);

test("an alias answers to its own name, and the process to its main one", async () => {
  const { world, alias } = await served();
  expect((await alias.call(Identity.method.getPluginInfo, {})).name).toBe(old);
  expect((await world.client.call(Identity.method.getPluginInfo, {})).name).toBe("csimux.example");
  const capabilities = async (client: CsiClient) =>
    (await client.call(Identity.method.getPluginCapabilities, {})).capabilities;
  expect(await capabilities(alias)).toEqual(await capabilities(world.client));
}, 60_000);

test("classes and ids of an alias are those of the old driver: no connection, no prefix, before and after", async () => {
  const { world, alias } = await served();
  await mkdir(join(world.base("one"), "v", "pvc-old"), { recursive: true });
  expect((await controller(alias, "controllerGetVolume", { volumeId: "pvc-old" })).volume?.volumeId).toBe("pvc-old");
  expect((await create(alias, "pvc-1")).volume?.volumeId).toBe("pvc-1");
  expect((await create(alias, "pvc-1", { connection: "one" })).volume?.volumeId).toBe("pvc-1");
  const { snapshot } = await controller(alias, "createSnapshot", { sourceVolumeId: "pvc-old", name: "snap-1" });
  expect(snapshot?.sourceVolumeId).toBe("pvc-old");
  expect(snapshot?.snapshotId).not.toMatch(/^[vs]:/);
  const snapshotId = snapshot?.snapshotId ?? "";
  const volumeContentSource = { type: { case: "snapshot", value: { snapshotId } } };
  expect((await create(alias, "pvc-2", {}, { volumeContentSource })).volume).toMatchObject({ volumeId: "pvc-2" });
  expect((await controller(alias, "listSnapshots", { snapshotId })).entries).toHaveLength(1);
  expect(
    await codeOf(controller(alias, "controllerExpandVolume", { volumeId: "pvc-old", capacityRange: mebibytes(2) })),
  ).toBe("ok");
  await controller(alias, "deleteSnapshot", { snapshotId });
  for (const volumeId of await listed(alias)) await controller(alias, "deleteVolume", { volumeId: volumeId ?? "" });
  expect(await world.stored("one")).toEqual([]);
}, 60_000);

test("an alias shows its own connection alone; the main name shows every connection, under whole handles", async () => {
  const { world, alias } = await served();
  await create(alias, "pvc-1");
  await world.create("pvc-2", "one");
  await world.create("pvc-3", "two");
  // At the same moment, so that one listing could join the other.
  const [aliased, whole] = await Promise.all([listed(alias), listed(world.client)]);
  expect(aliased).toEqual(["pvc-1", "pvc-2"]);
  expect(whole).toEqual(["v:one/pvc-1", "v:one/pvc-2", "v:two/pvc-3"]);
}, 60_000);

test("a class of an alias that names another connection or a group is refused, and nothing is made", async () => {
  const { world, alias } = await served();
  const failure = await failureOf(create(alias, "pvc-1", { connection: "two" }));
  expect(failure.code).toBe(status.failedPrecondition);
  expect(failure.details).toContain('this driver serves only the connection "one"');
  expect([...(await world.stored("one")), ...(await world.stored("two"))]).toEqual([]);
}, 60_000);

test("the main name does not know ids without a prefix, whatever aliases there are", async () => {
  const { world, alias } = await served();
  await create(alias, "pvc-1");
  expect(await codeOf(world.controller("controllerGetVolume", { volumeId: "pvc-1" }))).toBe(status.notFound);
  await world.controller("deleteVolume", { volumeId: "pvc-1" });
  expect(await listed(alias)).toEqual(["pvc-1"]);
  await world.controller("deleteVolume", { volumeId: "v:one/pvc-1" });
  expect(await listed(alias)).toEqual([]);
}, 60_000);

test("a volume of an alias is staged, published and unstaged under the old plugin's folder, across a restart", async () => {
  const { world, alias } = await served();
  const { volume } = await create(alias, "pvc-1");
  const volumeId = volume?.volumeId ?? "";
  const stagingTargetPath = join(world.sandbox.folder, "plugins/kubernetes.io/csi", old, "0123", "globalmount");
  const targetPath = join(world.sandbox.folder, "pods/1/volumes/kubernetes.io~csi/pvc-1/mount");
  await mkdir(stagingTargetPath, { recursive: true });
  await mkdir(join(targetPath, ".."), { recursive: true });
  const request = {
    volumeId,
    stagingTargetPath,
    volumeCapability: mountCapability,
    volumeContext: volume?.volumeContext ?? {},
  };
  await alias.call(Node.method.nodeStageVolume, request);
  await alias.call(Node.method.nodePublishVolume, { ...request, targetPath });
  await Bun.write(join(targetPath, "kept"), "data");
  await world.daemon.stop();
  await world.restart();
  const stats = await alias.call(Node.method.nodeGetVolumeStats, { volumeId, volumePath: targetPath });
  expect(stats.usage.length).toBeGreaterThan(0);
  // The same volume under its whole handle, as a PersistentVolume that was written again names it.
  const same = await world.node("nodeGetVolumeHealth", {
    volumeId: `v:one/${volumeId}`,
    volumePublishPath: targetPath,
  });
  expect(same.volumeHealth?.volumeId).toBe(`v:one/${volumeId}`);
  expect(await codeOf(alias.call(Node.method.nodeUnstageVolume, { volumeId, stagingTargetPath }))).toBe(
    status.failedPrecondition,
  );
  await alias.call(Node.method.nodeUnpublishVolume, { volumeId, targetPath });
  await alias.call(Node.method.nodeUnstageVolume, { volumeId, stagingTargetPath });
  expect(readdirSync(join(world.base("one"), "v", "pvc-1"))).toEqual(["kept"]);
  expect(readdirSync(join(world.sandbox.stateDir, "volumes"))).toEqual([]);
}, 60_000);

test("volumes that the old driver had mounted, of which csimux has no record, are published again and taken down", async () => {
  const { world, alias } = await served();
  const { volume } = await create(alias, "pvc-1");
  const volumeId = volume?.volumeId ?? "";
  const told = JSON.stringify({ driverName: old, volumeHandle: volumeId });
  const staged = join(world.sandbox.folder, "plugins/kubernetes.io/csi", old, "0123");
  const pod = (uid: string) => join(world.sandbox.folder, "pods", uid, "volumes/kubernetes.io~csi/pvc-1");
  // What democratic-csi and kubelet leave: two mounts, and next to each a description of it.
  for (const [folder, point] of [
    [staged, "globalmount"],
    [pod("1"), "mount"],
  ] as const) {
    await mkdir(join(folder, point), { recursive: true });
    await Bun.write(join(folder, "vol_data.json"), told);
    expect(
      Bun.spawnSync(["mount", "--bind", join(world.base("one"), "v", "pvc-1"), join(folder, point)]).exitCode,
    ).toBe(0);
  }
  const stagingTargetPath = join(staged, "globalmount");
  await mkdir(pod("2"), { recursive: true });
  await Bun.write(join(pod("2"), "vol_data.json"), told);
  const request = {
    volumeId,
    stagingTargetPath,
    volumeCapability: mountCapability,
    volumeContext: volume?.volumeContext ?? {},
  };
  await alias.call(Node.method.nodePublishVolume, { ...request, targetPath: join(pod("2"), "mount") });
  const stats = await alias.call(Node.method.nodeGetVolumeStats, { volumeId, volumePath: join(pod("1"), "mount") });
  expect(stats.usage.length).toBeGreaterThan(0);
  for (const uid of ["1", "2"])
    await alias.call(Node.method.nodeUnpublishVolume, { volumeId, targetPath: join(pod(uid), "mount") });
  await alias.call(Node.method.nodeUnstageVolume, { volumeId, stagingTargetPath });
  expect(Bun.spawnSync(["mountpoint", "-q", stagingTargetPath]).exitCode).not.toBe(0);
  expect(await world.stored("one")).toContain("v/pvc-1");
}, 60_000);

test("each name has its own registration socket for kubelet, and readiness waits for all", async () => {
  const sandbox = await makeSandbox("off", ["one"]);
  const registry = join(sandbox.folder, "registry");
  await mkdir(registry);
  const flags = [
    ...["--plugin-registration-socket", join(registry, "csimux.example-reg.sock")],
    ...["--kubelet-registration-path", "/host/plugins/csimux.example/csi.sock", "--health-address", "127.0.0.1:0"],
    ...["--alias", `${old}=one`],
  ];
  const world = await World.on(sandbox, async () => startDaemon({ command: [await build()], sandbox, flags }));
  ending.push(async () => {
    expect(await world.end()).toEqual([]);
    expect(existsSync(join(registry, `${old}-reg.sock`))).toBe(false);
  });
  const ready = async () => {
    const port = /"serving health probes","address":"127\.0\.0\.1:(\d+)"/.exec(await world.daemon.log())?.[1];
    return (await fetch(`http://127.0.0.1:${port}/readyz`)).status;
  };
  const registered = async (name: string) => {
    const socket = join(registry, `${name}-reg.sock`);
    const limit = Date.now() + 20_000;
    while (!existsSync(socket) && Date.now() < limit) await pause(20);
    const client = csiClient(socket);
    const info = await client.call(Registration.method.getInfo, {});
    await client.call(Registration.method.notifyRegistrationStatus, { pluginRegistered: true, error: "" });
    client.close();
    expect(statSync(socket).mode & 0o777).toBe(0o600);
    return [info.name, info.endpoint];
  };
  expect(await registered("csimux.example")).toEqual(["csimux.example", "/host/plugins/csimux.example/csi.sock"]);
  expect(await ready()).toBe(503);
  expect(await registered(old)).toEqual([old, `/host/plugins/csimux.example/${old}.sock`]);
  expect(await ready()).toBe(200);
}, 60_000);

test("csimux status names the aliases, and counts their calls for the connection that they stand for", async () => {
  const { world, alias } = await served();
  await create(alias, "pvc-1");
  await controller(alias, "controllerGetVolume", { volumeId: "pvc-1" });
  const run = Bun.spawnSync([
    await build(),
    "status",
    "--endpoint",
    `unix://${world.sandbox.socket}`,
    "--output",
    "json",
  ]);
  const told = JSON.parse(run.stdout.toString());
  expect(told.aliases).toEqual([{ name: old, connection: "one" }]);
  const one = told.connections.find((each: { name: string }) => each.name === "one");
  expect(one.lastSuccess.method).toBe("ControllerGetVolume");
}, 60_000);

test.each([
  ["no connection", ["--alias", "org.x"], "--alias must be <old driver name>=<connection>"],
  ["a bad name", ["--alias", "org_x=one"], "is not a driver name"],
  ["the main name", ["--alias", "csimux.example=one"], "is already taken"],
  ["a name twice", ["--alias", `${old}=two`], "is already taken"],
  ["TCP alone", ["--endpoint", "tcp://127.0.0.1:0"], "needs a Unix socket"],
])(
  "an alias with %s is refused at the start",
  async (_, flags, words) => {
    const argv = [await build(), "serve", "--config", "examples/quickstart/proxy.yaml", "--name", "csimux.example"];
    const more = flags.includes("--endpoint") ? flags : ["--endpoint", "unix:///nowhere/csi.sock", ...flags];
    const run = Bun.spawnSync([...argv, "--alias", `${old}=one`, ...more]);
    expect(run.exitCode).not.toBe(0);
    expect(run.stderr.toString()).toContain(words);
  },
  60_000,
);
