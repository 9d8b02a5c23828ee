import { expect, test } from "bun:test";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { codeOf, status } from "../../serve/world.ts";
import { type Made, mountVolume, startCsimux, unmountVolume, whileMounted } from "../rig.ts";
import { run } from "../run.ts";
import { zfsDrivers } from "./zfs-drivers.ts";
import { storageHost } from "./zfs-host.ts";
import { deleteVolume, makeVolume, poolBelow } from "./zfs-pool.ts";

// A class that keeps its volumes, and a claim that is created again: what this host's kernel and OpenZFS say of users and values decides.

const fileOf = storageHost();

const drivers = zfsDrivers.filter(({ connection }) => ["nfs", "iscsi"].includes(connection));

const classOf = (claim: string) => ({
  deleteStrategy: "retain",
  adopt: "byClaim",
  "csi.storage.k8s.io/pvc/namespace": "shop",
  "csi.storage.k8s.io/pvc/name": claim,
});

test.each(drivers)(
  "a claim that is created again gets the volume of $title that it gave up, and no volume that a node uses",
  async driver => {
    const { connection, mount } = driver;
    const parent = `tank/${connection}/v`;
    const world = await startCsimux({ connections: { [connection]: `${fileOf(driver)}instance_id: lab\n` } });
    const make = (name: string, claim: string) => makeVolume(world, connection, name, { parameters: classOf(claim) });
    const write = (volume: Made, text: string) =>
      whileMounted(world, volume, path => writeFile(join(path, "file"), text), mount);
    const read = (path: string) => readFile(join(path, "file"), "utf8");
    try {
      const first = await make("pvc-1", "db-0");
      await write(first, "of db-0");
      const other = await make("pvc-2", "db-1");
      await write(other, "of db-1");
      for (const { volumeId } of [first, other]) await deleteVolume(world, volumeId);
      expect(await poolBelow(parent)).toEqual(["/pvc-1", "/pvc-2"]);

      const again = await make("pvc-3", "db-0");
      expect(again.volumeId).toBe(first.volumeId);
      expect((await make("pvc-3", "db-0")).volumeId).toBe(first.volumeId);
      const path = await mountVolume(world, again, mount);
      expect(await read(path)).toBe("of db-0");

      // Its PersistentVolume is deleted while a node still has it.
      await deleteVolume(world, again.volumeId);
      expect(await codeOf(make("pvc-4", "db-0"))).toBe(status.failedPrecondition);
      expect(await read(path)).toBe("of db-0");
      await unmountVolume(world, again);
      expect((await make("pvc-4", "db-0")).volumeId).toBe(first.volumeId);

      const unrelated = await make("pvc-5", "db-9");
      expect(unrelated.volumeId).toBe(`v:${connection}/pvc-5`);
      expect(await poolBelow(parent)).toEqual(["/pvc-1", "/pvc-2", "/pvc-5"]);
    } finally {
      for (const below of await poolBelow(parent)) {
        for (const property of ["csimux:tenure", "csimux:retained"])
          await run(["zfs", "inherit", property, parent + below]);
        await deleteVolume(world, `v:${connection}${below}`);
      }
      expect(await poolBelow(parent)).toEqual([]);
      expect(await world.end()).toEqual([]);
    }
  },
  900_000,
);
