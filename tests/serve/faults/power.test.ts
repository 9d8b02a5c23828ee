import { expect, test } from "bun:test";
import { copyFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connectionFile } from "../../../scripts/sandbox.ts";
import { leftBelow, mebibytes, World } from "../world.ts";
import { canMountImages, makeImage, mountImage } from "./loop-disk.ts";

const content = "what the snapshot holds\n".repeat(5000);

const within = (connection: string, snapshotId: string): string => snapshotId.replace("s:disk/", `s:${connection}/`);

test.skipIf(!canMountImages)(
  "what was answered holds after a power failure right behind the answer",
  async () => {
    let disk = "";
    const world = await World.start("off", ["one"], async ({ folder, connections }) => {
      disk = join(folder, "disk");
      await makeImage(`${disk}.img`);
      // Until the test has ended, nothing but a sync takes changes to the file.
      await mountImage(`${disk}.img`, disk, "commit=300");
      await writeFile(join(connections, "disk.yaml"), connectionFile(disk, "off"));
    });
    const copies: string[] = [];
    /** The disk as it would be found now; a connection of its own serves it. */
    const afterFailure = async (): Promise<string> => {
      const name = `disk${copies.length}`;
      const at = join(world.sandbox.folder, name);
      await copyFile(`${disk}.img`, `${at}.img`);
      await mountImage(`${at}.img`, at);
      copies.unshift(at);
      await writeFile(join(world.sandbox.connections, `${name}.yaml`), connectionFile(at, "off"));
      return name;
    };
    const listed = async (connection: string) => {
      const { entries } = await world.controller("listVolumes", {});
      const found = entries.map(({ volume }) => [volume?.volumeId, (volume?.capacityBytes ?? 0n) >> 20n]);
      return found.filter(([id]) => String(id).startsWith(`v:${connection}/`)).map(([id, size]) => `${id} ${size}`);
    };
    try {
      await world.create("vol", "disk");
      let name = await afterFailure();
      expect(await listed(name)).toEqual([`v:${name}/vol 1`]);

      await writeFile(join(disk, "v", "vol", "file"), content);
      await world.controller("controllerExpandVolume", { volumeId: "v:disk/vol", capacityRange: mebibytes(3) });
      name = await afterFailure();
      expect(await listed(name)).toEqual([`v:${name}/vol 3`]);

      const { snapshot } = await world.controller("createSnapshot", { name: "snap", sourceVolumeId: "v:disk/vol" });
      const snapshotId = snapshot?.snapshotId ?? "";
      name = await afterFailure();
      const value = { snapshotId: within(name, snapshotId) };
      expect((await world.controller("listSnapshots", value)).entries.length).toBe(1);
      await world.create("restored", name, {
        capacityRange: mebibytes(3),
        volumeContentSource: { type: { case: "snapshot", value } },
      });
      expect(await readFile(join(world.sandbox.folder, name, "v", "restored", "file"), "utf8")).toBe(content);

      await world.create("clone", "disk", {
        capacityRange: mebibytes(3),
        volumeContentSource: { type: { case: "volume", value: { volumeId: "v:disk/vol" } } },
      });
      name = await afterFailure();
      expect(await readFile(join(world.sandbox.folder, name, "v", "clone", "file"), "utf8")).toBe(content);

      await world.controller("deleteSnapshot", { snapshotId });
      name = await afterFailure();
      const { entries } = await world.controller("listSnapshots", { snapshotId: within(name, snapshotId) });
      expect(entries).toEqual([]);

      await world.create("empty", "disk");
      await world.controller("deleteVolume", { volumeId: "v:disk/empty" });
      name = await afterFailure();
      expect(await listed(name)).toEqual([`v:${name}/clone 3`, `v:${name}/vol 3`]);

      for (const volumeId of ["v:disk/vol", "v:disk/clone"]) await world.controller("deleteVolume", { volumeId });
      name = await afterFailure();
      expect(await leftBelow(join(world.sandbox.folder, name))).toEqual(["lost+found"]);
    } finally {
      expect([...(await world.end())].sort()).toEqual([...copies, disk].sort());
    }
  },
  60_000,
);
