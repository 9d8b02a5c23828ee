import { afterEach, expect, test } from "bun:test";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { Node } from "../../lib/csi/services.ts";
import { codeOf, failureOf, mebibytes, status, World } from "./world.ts";

const worlds: World[] = [];
afterEach(async () => {
  for (const world of worlds.splice(0)) expect(await world.end()).toEqual([]);
});

const single = (base: string): string =>
  `driver: local-hostpath\ninstance_id:\nlocal-hostpath:\n  shareBasePath: ${base}\n  controllerBasePath: ${base}\n  dirPermissionsMode: "0777"\n`;

/** A csimux whose main file is the configuration of one driver, as democratic-csi has it. */
async function served(text: (base: string) => string = single): Promise<World> {
  const world = await World.start("off", ["one"], async ({ config, folder }) => {
    await writeFile(config, text(join(folder, "storage", "one")));
  });
  worlds.push(world);
  return world;
}

const capacity = mebibytes(1);
const parameters = {};

test("a main file of a single driver is served as that connection: classes name none, and ids have no prefix", async () => {
  const world = await served();
  const { volume } = await world.create("pvc-1", "", { parameters });
  expect(volume?.volumeId).toBe("pvc-1");
  expect((await world.create("pvc-1", "", { parameters })).volume?.volumeId).toBe("pvc-1");
  const { snapshot } = await world.controller("createSnapshot", { sourceVolumeId: "pvc-1", name: "snap-1" });
  expect(snapshot?.sourceVolumeId).toBe("pvc-1");
  expect(snapshot?.snapshotId).not.toMatch(/^[vs]:/);
  const source = { type: { case: "snapshot", value: { snapshotId: snapshot?.snapshotId ?? "" } } } as const;
  const restored = await world.create("pvc-2", "", { parameters, volumeContentSource: source });
  expect(restored.volume).toMatchObject({ volumeId: "pvc-2", contentSource: source });
  const volumes = (await world.controller("listVolumes", {})).entries.map(({ volume: each }) => each?.volumeId);
  expect(volumes).toEqual(["pvc-1", "pvc-2"]);
  const snapshots = await world.controller("listSnapshots", { sourceVolumeId: "pvc-1" });
  expect(snapshots.entries.map(({ snapshot: each }) => each?.snapshotId)).toEqual([snapshot?.snapshotId]);
  const one = await world.controller("listSnapshots", {
    snapshotId: snapshot?.snapshotId ?? "",
    sourceVolumeId: "pvc-1",
  });
  expect(one.entries).toHaveLength(1);
  expect(await codeOf(world.controller("controllerExpandVolume", { volumeId: "pvc-1", capacityRange: capacity }))).toBe(
    "ok",
  );
  await world.controller("deleteSnapshot", { snapshotId: snapshot?.snapshotId ?? "" });
  for (const volumeId of ["pvc-1", "pvc-2"]) await world.controller("deleteVolume", { volumeId });
  expect((await world.controller("listVolumes", {})).entries).toEqual([]);
}, 60_000);

test("volumes that democratic-csi left are listed, found again by name and deleted under their ids", async () => {
  const world = await served();
  await mkdir(join(world.base("one"), "v", "pvc-old"), { recursive: true });
  expect((await world.controller("listVolumes", {})).entries.map(({ volume }) => volume?.volumeId)).toEqual([
    "pvc-old",
  ]);
  expect((await world.controller("controllerGetVolume", { volumeId: "pvc-old" })).volume?.volumeId).toBe("pvc-old");
  await world.controller("deleteVolume", { volumeId: "pvc-old" });
  expect((await world.controller("listVolumes", {})).entries).toEqual([]);
}, 60_000);

test("volumes of a driver that lives on its node are tied to it, by the key that democratic-csi used", async () => {
  const world = await served();
  const { nodeId, accessibleTopology } = await world.client.call(Node.method.nodeGetInfo, {});
  expect(nodeId).toContain(hostname());
  const segments = { "org.democratic-csi.topology/node": hostname() };
  expect(accessibleTopology?.segments).toEqual(segments);
  const { volume } = await world.create("pvc-1", "", { parameters });
  expect(volume?.accessibleTopology.map(each => each.segments)).toEqual([segments]);
}, 60_000);

test("a name in a class that is not the only connection's is refused", async () => {
  const world = await served();
  expect(await codeOf(world.create("pvc-1", "other"))).toBe(status.failedPrecondition);
}, 60_000);

test("settings that turn bad leave the last good ones in place; another kind of main file waits for a restart", async () => {
  const world = await served();
  await world.create("pvc-1", "", { parameters });
  const { config, connections, folder } = world.sandbox;
  for (const [text, words] of [
    [single("relative"), "must be an absolute path"],
    [`driver: proxy\nproxy:\n  configFolder: ${connections}\n`, "restart to apply it"],
  ] as const) {
    await writeFile(config, text);
    const until = Date.now() + 20_000;
    // A file is read again a second after the last time, when a call comes.
    while (!(await readFile(join(folder, "csimux.log"), "utf8")).includes(words) && Date.now() < until)
      expect(await codeOf(world.controller("controllerGetVolume", { volumeId: "pvc-1" }))).toBe("ok");
    expect(await readFile(join(folder, "csimux.log"), "utf8")).toContain(words);
  }
  await world.controller("deleteVolume", { volumeId: "pvc-1" });
  expect((await world.stored("one")).filter(path => path.includes("pvc-1"))).toEqual([]);
}, 60_000);

test("csimux does not start with a driver that does not exist, and says which was meant", async () => {
  const starting = served(base => single(base).replace("driver: local-hostpath", "driver: local-hostpth"));
  expect(await starting.then(String, String)).toMatch(
    /unknown driver .*local-hostpth.* in the main file.*local-hostpath/,
  );
}, 60_000);

test("a failing call names the connection of the main file, not a file that does not exist", async () => {
  const world = await served(() => single("relative"));
  const failure = await failureOf(world.create("pvc-1", "", { parameters }));
  expect(failure.details).toContain("the main file:");
}, 60_000);
