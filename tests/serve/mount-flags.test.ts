import { afterAll, beforeAll, expect, test } from "bun:test";
import { appendFile, mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { mountCapability } from "../../scripts/client.ts";
import { isHostRoot } from "../root.ts";
import { World } from "./world.ts";

const flags = (words: string): string => `node:\n  mount:\n    mount_flags: ${words}\n`;

let world: World;
beforeAll(async () => {
  if (!isHostRoot) return;
  world = await World.start("off", ["own", "plain", "gone"], async ({ config, connections }) => {
    await appendFile(config, flags("nodev"));
    await appendFile(join(connections, "own.yaml"), flags("nosuid,noexec"));
  });
});
afterAll(async () => {
  if (isHostRoot) expect(await world.end()).toEqual([]);
});

/** The flags of the staged mount of a new volume; `meanwhile` happens between its creation and its staging. */
async function stagedFlags(connection: string, meanwhile = async () => {}): Promise<readonly string[]> {
  const { volume } = await world.create("pvc", connection);
  const { volumeId = "", volumeContext = {} } = volume ?? {};
  await meanwhile();
  const stagingTargetPath = join(world.sandbox.folder, `staging-${connection}`);
  await mkdir(stagingTargetPath);
  await world.node("nodeStageVolume", {
    volumeId,
    volumeContext,
    stagingTargetPath,
    volumeCapability: mountCapability,
  });
  const lines = (await readFile("/proc/self/mountinfo", "utf8")).split("\n").map(line => line.split(" "));
  const options = lines.find(([, , , , at]) => at === stagingTargetPath)?.[5]?.split(",") ?? [];
  await world.node("nodeUnstageVolume", { volumeId, stagingTargetPath });
  return options.filter(option => ["nodev", "nosuid", "noexec"].includes(option));
}

test.skipIf(!isHostRoot)(
  "a staged volume has the flags of its connection's file, or those of the main file",
  async () => {
    expect(await stagedFlags("own")).toEqual(["nosuid", "noexec"]);
    expect(await stagedFlags("plain")).toEqual(["nodev"]);
  },
);

test.skipIf(!isHostRoot)("a node without the connection's file uses the main file", async () => {
  const remove = () => rm(join(world.sandbox.connections, "gone.yaml"));
  expect(await stagedFlags("gone", remove)).toEqual(["nodev"]);
});
