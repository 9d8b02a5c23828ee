import { expect, test } from "bun:test";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connectionFile } from "../../../scripts/sandbox.ts";
import { codeOf, status, World } from "../world.ts";
import { canMountImages, makeImage, mountImage } from "./loop-disk.ts";

const canFreeze = canMountImages && spawnSync("fsfreeze", ["--version"]).status === 0;

/** A world with the connection "fast", and "ice" on a disk of its own. */
async function worldOnDisk(): Promise<{ readonly world: World; readonly disk: string }> {
  let disk = "";
  const world = await World.start("off", ["fast"], async ({ folder, connections }) => {
    disk = join(folder, "disk");
    await makeImage(`${disk}.img`);
    await mountImage(`${disk}.img`, disk);
    await writeFile(join(connections, "ice.yaml"), connectionFile(disk, "off"));
  });
  return { world, disk };
}

test.skipIf(!canFreeze)(
  "while a local disk is frozen, other connections are served as before; then its calls come to their end",
  async () => {
    const { world, disk } = await worldOnDisk();
    try {
      for (let at = 0; at < 20; at++) await world.create(`old-${at}`, "ice");
      execFileSync("fsfreeze", ["--freeze", disk]);
      const names = Array.from({ length: 20 }, (_, at) => at);
      const hanging = [
        ...names.map(at => codeOf(world.create(`new-${at}`, "ice", {}, 500))),
        ...names.map(at => codeOf(world.controller("deleteVolume", { volumeId: `v:ice/old-${at}` }, 500))),
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

test.skipIf(!canFreeze)(
  "a disk that is frozen before its first volume delays no other connection either",
  async () => {
    const { world, disk } = await worldOnDisk();
    const absent = (kind: "volume" | "snapshot") => ({
      volumeContentSource: {
        type:
          kind === "volume"
            ? { case: kind, value: { volumeId: "v:ice/no-origin" } }
            : { case: kind, value: { snapshotId: "s:ice/no-origin/none" } },
      },
    });
    try {
      await world.create("first", "fast");
      // What an interrupted delete has left, in a folder of volumes that is gone.
      await mkdir(join(disk, ".csimux", "work", "v~left~012345678901"), { recursive: true });
      execFileSync("fsfreeze", ["--freeze", disk]);
      const calls = [
        codeOf(world.create("new", "ice", {}, 500)),
        codeOf(world.create("copy", "ice", absent("volume"), 500)),
        codeOf(world.create("restored", "ice", absent("snapshot"), 500)),
        codeOf(world.controller("deleteVolume", { volumeId: "v:ice/absent" }, 500)),
        codeOf(world.controller("deleteVolume", { volumeId: "v:ice/left" }, 500)),
        codeOf(world.controller("deleteSnapshot", { snapshotId: "s:ice/absent/absent" }, 500)),
        codeOf(world.controller("createSnapshot", { name: "s", sourceVolumeId: "v:ice/no-origin" }, 500)),
      ];
      await world.create("meanwhile", "fast");
      for (const volumeId of ["v:fast/meanwhile", "v:fast/first"]) await world.controller("deleteVolume", { volumeId });
      expect((await world.probe()).ready).toBe(true);
      const codes = await Promise.all(calls);
      const expected: readonly (number | string)[] = [status.deadlineExceeded, status.notFound, "ok"];
      expect(codes.filter(code => !expected.includes(code))).toEqual([]);
      execFileSync("fsfreeze", ["--unfreeze", disk]);
      await world.create("new", "ice");
      for (const name of ["new", "left"]) await world.controller("deleteVolume", { volumeId: `v:ice/${name}` });
      expect((await world.controller("listVolumes", {})).entries).toEqual([]);
    } finally {
      spawnSync("fsfreeze", ["--unfreeze", disk]);
      expect(await world.end()).toEqual([disk]);
    }
  },
  60_000,
);
