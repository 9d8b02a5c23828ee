import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { leftBelow, mebibytes, type World } from "../serve/world.ts";
import { hasSanity, type Made, sanityAgainst, startCsimux, whileMounted } from "./rig.ts";
import { run } from "./run.ts";
import { leftSince, traces } from "./traces.ts";

let before: ReadonlySet<string>;
let base: string;
let world: World;
beforeAll(async () => {
  before = await traces();
  base = await mkdtemp("/srv/hostpath-");
  // The folder of the second connection is an NFS mount, as in the controller of a deployment with nfs-client.
  await run(["mkdir", `${base}/exported`, `${base}/mounted`, `${base}/local`]);
  await run(["exportfs", "-o", "rw,no_root_squash,insecure", `127.0.0.1:${base}/exported`]);
  await run(["mount", "-t", "nfs", `127.0.0.1:${base}/exported`, `${base}/mounted`]);
  const connection = (path: string): string =>
    ["driver: local-hostpath", "local-hostpath:", `  shareBasePath: ${path}`, `  controllerBasePath: ${path}`, ""].join(
      "\n",
    );
  world = await startCsimux({
    connections: { local: connection(`${base}/local`), mounted: connection(`${base}/mounted`) },
  });
});
afterAll(async () => {
  expect(await world.end()).toEqual([]);
  await run(["umount", `${base}/mounted`]);
  await run(["exportfs", "-u", `127.0.0.1:${base}/exported`]);
  await rm(base, { recursive: true });
  expect(await leftSince(before)).toEqual([]);
});

async function make(name: string, connection: string, source?: Made): Promise<Made> {
  const volumeContentSource = source && { type: { case: "volume" as const, value: { volumeId: source.volumeId } } };
  const { volume } = await world.create(name, connection, volumeContentSource ? { volumeContentSource } : {});
  if (!volume) throw new Error("no volume");
  return volume;
}

test.each(["local", "mounted"])("the life of a volume on a folder that is %s", async connection => {
  const made = await make("pvc-1", connection);
  await whileMounted(world, made, path => writeFile(join(path, "hello"), "from a pod"));
  const clone = await make("pvc-2", connection, made);
  await whileMounted(world, clone, async path => {
    expect(await readFile(join(path, "hello"), "utf8")).toBe("from a pod");
    expect(await readFile(`${base}/${connection === "local" ? "local" : "exported"}/v/pvc-2/hello`, "utf8")).toBe(
      "from a pod",
    );
  });
  const { snapshot } = await world.controller("createSnapshot", {
    sourceVolumeId: made.volumeId,
    name: `snap-${connection}`,
  });
  await world.controller("controllerExpandVolume", { volumeId: made.volumeId, capacityRange: mebibytes(5) });
  await world.controller("deleteSnapshot", { snapshotId: snapshot?.snapshotId ?? "" });
  for (const { volumeId } of [made, clone]) await world.controller("deleteVolume", { volumeId });
  expect(await leftBelow(`${base}/${connection}`)).toEqual([]);
});

test.skipIf(!hasSanity())(
  "csi-sanity passes in the guest",
  async () => {
    const tally = await sanityAgainst(world, { connection: "local" });
    expect(tally).toMatchObject({ failed: 0 });
    expect(tally.passed).toBeGreaterThan(50);
  },
  900_000,
);
