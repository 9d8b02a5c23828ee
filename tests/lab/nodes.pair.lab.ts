import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { leftBelow, type World } from "../serve/world.ts";
import { mountVolume, startCsimux, unmountVolume, whileMounted } from "./rig.ts";
import { run } from "./run.ts";
import { onSecond, secondAddress, secondTraces, startOnSecond } from "./second.ts";
import { leftSince, traces } from "./traces.ts";

// The storage is a folder of the first guest; both guests have it at the same path, the second one by NFS.

let before: readonly [ReadonlySet<string>, ReadonlySet<string>];
let base: string;
let first: World;
let second: World;
beforeAll(async () => {
  before = [await traces(), await secondTraces()];
  base = await mkdtemp("/srv/nodes-");
  await run(["exportfs", "-o", "rw,no_root_squash,insecure", `${secondAddress}:${base}`]);
  const own = (await run(["hostname", "-I"])).split(" ").find(address => address.startsWith("10.77.0."));
  await onSecond(["mkdir", base]);
  await onSecond(["mount", "-t", "nfs", `${own}:${base}`, base]);
  const shared = [
    "driver: local-hostpath",
    "local-hostpath:",
    `  shareBasePath: ${base}`,
    `  controllerBasePath: ${base}`,
  ];
  const setting = { connections: { shared: `${shared.join("\n")}\n` } };
  [first, second] = await Promise.all([startCsimux(setting), startOnSecond(setting)]);
});
afterAll(async () => {
  expect([await first.end(), await second.end()]).toEqual([[], []]);
  await onSecond(["umount", base]);
  await onSecond(["rmdir", base]);
  await run(["exportfs", "-u", `${secondAddress}:${base}`]);
  await rm(base, { recursive: true });
  expect(await leftSince(before[0])).toEqual([]);
  expect(await leftSince(before[1], secondTraces)).toEqual([]);
});

test("what a pod of one node wrote is what a pod of another node reads", async () => {
  const { volume } = await first.create("pvc-1", "shared");
  if (!volume) throw new Error("no volume");
  const there = { onNode: onSecond };
  const path = await mountVolume(second, volume, there);
  await onSecond(["sh", "-c", 'echo "from the second node" >"$1"', "write", join(path, "hello")]);
  await unmountVolume(second, volume);
  await whileMounted(first, volume, async folder => {
    expect(await readFile(join(folder, "hello"), "utf8")).toBe("from the second node\n");
  });
  await first.controller("deleteVolume", { volumeId: volume.volumeId });
  expect(await leftBelow(base)).toEqual([]);
});
