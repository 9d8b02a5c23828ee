import { expect, test } from "bun:test";
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connectionFile } from "../../scripts/sandbox.ts";
import { pause } from "../waiting.ts";
import { codeOf, status, World } from "./world.ts";

/** Waits until a line of the log has all these words; answers how many such lines there are. */
async function logged(world: World, ...words: readonly string[]): Promise<number> {
  const until = Date.now() + 60_000;
  for (;;) {
    const lines = (await world.daemon.log()).split("\n").filter(line => words.every(word => line.includes(word)));
    if (lines.length > 0) return lines.length;
    if (Date.now() > until) throw new Error(`nothing about ${words.join(", ")} in:\n${await world.daemon.log()}`);
    await pause(20);
  }
}

test("the log tells of every file at the start and at each change, without any call", async () => {
  let file = "";
  const world = await World.start("off", ["good"], async ({ connections }) => {
    file = join(connections, "wrong.yaml");
    await writeFile(file, "driver: local-hostpth\n");
  });
  try {
    const good = connectionFile(world.base("good"), "off");
    expect(await logged(world, '"good\\": file accepted"', "local-hostpath")).toBe(1);
    expect(await logged(world, '"wrong\\" is out of service', "wrong.yaml:1:", "local-hostpth", "did you mean")).toBe(
      1,
    );
    await writeFile(file, good);
    expect(await logged(world, '"wrong\\": file accepted now"')).toBe(1);
    await writeFile(file, `${good}proxy: [`);
    expect(await logged(world, '"wrong\\" is degraded', "last valid", "wrong.yaml:")).toBe(1);
    await rm(file);
    expect(await logged(world, '"wrong\\" is gone', "UNAVAILABLE")).toBe(1);
    await writeFile(file, good);
    expect(await logged(world, '"wrong\\": file is back and accepted"')).toBe(1);
    await writeFile(world.sandbox.config, "driver: proxy\nproxy: [");
    expect(await logged(world, "the main file is invalid; still using the last valid version", "proxy.yaml:2")).toBe(1);
    // New storages are checked at their own time.
    const ofFiles = async () => (await world.daemon.log()).split("\n").filter(line => !line.includes("its storage"));
    const { length } = await ofFiles();
    await writeFile(join(world.sandbox.connections, "last.yaml"), good);
    expect(await logged(world, '"last\\": file accepted"')).toBe(1);
    expect(await ofFiles()).toHaveLength(length + 1);
  } finally {
    expect(await world.end()).toEqual([]);
  }
}, 120_000);

test("files that were never good, and files that are gone, are not listed; operations on their volumes are repeated", async () => {
  const world = await World.start("off", ["one", "two"], ({ connections }) =>
    writeFile(join(connections, "empty.yaml"), ""),
  );
  try {
    for (const connection of ["one", "two"]) await world.create("pvc", connection);
    const listed = async () => (await world.controller("listVolumes", {})).entries.map(entry => entry.volume?.volumeId);
    expect(await listed()).toEqual(["v:one/pvc", "v:two/pvc"]);
    expect((await world.controller("listSnapshots", {})).entries).toEqual([]);
    expect(await codeOf(world.controller("deleteVolume", { volumeId: "v:empty/pvc" }))).toBe(status.unavailable);
    await rm(join(world.sandbox.connections, "two.yaml"));
    expect(await listed()).toEqual(["v:one/pvc"]);
    expect(await codeOf(world.controller("deleteVolume", { volumeId: "v:two/pvc" }))).toBe(status.unavailable);
    expect(await logged(world, '"two\\" is gone')).toBe(1);
    expect(await logged(world, '"empty\\" is out of service', "no listing shows")).toBe(1);
  } finally {
    expect(await world.end()).toEqual([]);
  }
}, 60_000);

test("a folder that comes later, as a Secret that is mounted, is said to be missing and then served", async () => {
  const world = await World.start("off", ["one"], ({ connections }) => rename(connections, `${connections}.later`));
  try {
    const { connections } = world.sandbox;
    expect(await logged(world, "cannot read the connections", connections, "ENOENT")).toBe(1);
    await mkdir(`${connections}.new`);
    await rename(`${connections}.later`, `${connections}.new/..a`);
    await symlink("..a", `${connections}.new/..data`);
    await symlink("..data/one.yaml", `${connections}.new/one.yaml`);
    await rename(`${connections}.new`, connections);
    expect(await logged(world, "is readable again")).toBe(1);
    expect(await logged(world, '"one\\": file accepted"')).toBe(1);
    await mkdir(`${connections}/..b`);
    await writeFile(`${connections}/..b/one.yaml`, "driver: [");
    await symlink("..b", `${connections}/..data_tmp`);
    await rename(`${connections}/..data_tmp`, `${connections}/..data`);
    expect(await logged(world, '"one\\" is degraded')).toBe(1);
    expect(await codeOf(world.create("pvc", "one"))).toBe("ok");
  } finally {
    expect(await world.end()).toEqual([]);
  }
}, 120_000);
