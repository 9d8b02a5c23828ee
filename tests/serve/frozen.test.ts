import { expect, test } from "bun:test";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdir, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connectionFile } from "../../scripts/sandbox.ts";
import { isHostRoot } from "../root.ts";
import { codeOf, status, World } from "./world.ts";

const canFreeze =
  isHostRoot &&
  spawnSync("losetup", ["--find"]).status === 0 &&
  [
    ["mkfs.ext4", "-V"],
    ["fsfreeze", "--version"],
  ].every(([tool = "", flag = ""]) => spawnSync(tool, [flag]).status === 0);

test.skipIf(!canFreeze)(
  "while a local disk is frozen, other connections are served as before; then its calls come to their end",
  async () => {
    let disk = "";
    const world = await World.start("off", ["fast"], async ({ folder, connections }) => {
      disk = join(folder, "disk");
      const image = join(folder, "disk.img");
      await writeFile(image, "");
      await truncate(image, 32 << 20);
      execFileSync("mkfs.ext4", ["-q", image]);
      await mkdir(disk);
      execFileSync("mount", ["-o", "loop", image, disk]);
      await writeFile(join(connections, "ice.yaml"), connectionFile(disk, "off"));
    });
    try {
      for (let at = 0; at < 20; at++) await world.create(`old-${at}`, "ice");
      execFileSync("fsfreeze", ["--freeze", disk]);
      const names = Array.from({ length: 20 }, (_, at) => at);
      const hanging = [
        ...names.map(at => codeOf(world.create(`new-${at}`, "ice", {}, 2000))),
        ...names.map(at => codeOf(world.controller("deleteVolume", { volumeId: `v:ice/old-${at}` }, 2000))),
      ];
      await world.create("meanwhile", "fast");
      await world.controller("deleteVolume", { volumeId: "v:fast/meanwhile" });
      expect((await world.probe()).ready).toBe(true);
      expect(new Set(await Promise.all(hanging))).toEqual(new Set([status.deadlineExceeded]));
      execFileSync("fsfreeze", ["--unfreeze", disk]);
      for (const at of names) expect((await world.create(`new-${at}`, "ice")).volume?.volumeId).toBe(`v:ice/new-${at}`);
      for (const name of ["old", "new"])
        for (const at of names) await world.controller("deleteVolume", { volumeId: `v:ice/${name}-${at}` });
      expect((await world.controller("listVolumes", {})).entries).toEqual([]);
    } finally {
      spawnSync("fsfreeze", ["--unfreeze", disk]);
      expect(await world.end()).toEqual([disk]);
    }
  },
  60_000,
);
