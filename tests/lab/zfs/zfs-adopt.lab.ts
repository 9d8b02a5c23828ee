import { expect, test } from "bun:test";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { readObjects } from "../../../lib/config/cluster.ts";
import { codeOf } from "../../serve/world.ts";
import { executable, startCsimux, whileMounted } from "../rig.ts";
import { run } from "../run.ts";
import { zfsDrivers } from "./zfs-drivers.ts";
import { storageHost } from "./zfs-host.ts";
import { deleteVolume, makeVolume } from "./zfs-pool.ts";

// Storage that a person made becomes a volume: nothing on the pool changes without --mark, and then only the marks.

const fileOf = storageHost();

const drivers = zfsDrivers.filter(({ connection }) => ["nfs", "smb"].includes(connection));

/** Every property of everything below the connection's parent, without counters, and every share of the host. */
const state = async (parent: string): Promise<string> =>
  [
    await run([
      "sh",
      "-c",
      'zfs get -rHp -t all all "$1" | grep -Ev "\t(used|referenced|available|written|usedby|logical|compress|refcompress|snapshots_changed)"',
      "get",
      parent,
    ]),
    await readFile("/var/lib/nfs/etab", "utf8"),
    await run(["sh", "-c", "ls /var/lib/samba/usershares; find /sys/kernel/config | sort"]),
  ].join("\n");

/** The properties that were set on a dataset itself. */
const local = async (dataset: string): Promise<readonly string[]> =>
  (await run(["zfs", "get", "-H", "-s", "local", "-o", "property,value", "all", dataset])).split("\n").sort();

test.each(drivers)(
  "a dataset of a person is adopted for $title: its claim's volume is mounted with the old data",
  async driver => {
    const { connection, mount } = driver;
    const parent = `tank/${connection}/v`;
    const world = await startCsimux({ connections: { [connection]: fileOf(driver) } });
    const volumes = (...words: readonly string[]) =>
      run([
        "sh",
        "-c",
        '"$@" || [ $? = 1 ]',
        "volumes",
        executable,
        "volumes",
        ...words,
        "--config",
        world.sandbox.config,
        "--name",
        "csimux.lab",
      ]);
    try {
      // Another volume has the properties and the share that one needs.
      const other = await makeVolume(world, connection, "pvc-other");
      const share = connection === "nfs" ? "sharenfs" : "sharesmb";
      const value = (await run(["zfs", "get", "-H", "-o", "value", share, `${parent}/pvc-other`])).trim();
      await run(["zfs", "create", "-o", `${share}=${value}`, `${parent}/photos`]);
      await run(["chmod", "0777", `/${parent}/photos`]);
      await writeFile(join(`/${parent}/photos`, "old"), "made by a person");
      await run(["sync"]);
      const before = await state(parent);
      const listed = JSON.parse(await volumes("list", "--json"));
      expect(listed.volumes.map((each: { handle: string }) => each.handle)).toEqual([`v:${connection}/pvc-other`]);
      const pvs = join(world.sandbox.folder, "pvs.json");
      await writeFile(
        pvs,
        JSON.stringify({
          apiVersion: "v1",
          kind: "List",
          items: [
            {
              kind: "PersistentVolume",
              metadata: { name: "x" },
              spec: { csi: { driver: "csimux.lab", volumeHandle: "v:none/x" } },
            },
          ],
        }),
      );
      expect(await volumes("orphans", "--print-delete", "--pvs", pvs)).toContain(`v:${connection}/pvc-other`);
      await volumes("adopt", connection, "photos");
      expect(await state(parent)).toBe(before);
      const own = await local(`${parent}/photos`);
      const adopted = readObjects("adopted", await volumes("adopt", connection, "photos", "--mark"));
      const added = (await local(`${parent}/photos`)).filter(line => !own.includes(line));
      expect(added.length).toBeGreaterThan(2);
      for (const line of added) expect(line).toStartWith("democratic-csi:");
      expect(await readFile(join(`/${parent}/photos`, "old"), "utf8")).toBe("made by a person");
      const csiOf = ({ spec }: { readonly spec?: unknown }) =>
        (spec as { csi: { volumeHandle: string; volumeAttributes: Record<string, string> } }).csi;
      const [{ volumeHandle, volumeAttributes } = { volumeHandle: "", volumeAttributes: {} }] = adopted.map(csiOf);
      expect(volumeHandle).toBe(`v:${connection}/photos`);
      await whileMounted(
        world,
        { volumeId: volumeHandle, volumeContext: volumeAttributes },
        async path => {
          expect(await readFile(join(path, "old"), "utf8")).toBe("made by a person");
          await writeFile(join(path, "new"), "by a pod");
        },
        mount,
      );
      expect(await readFile(join(`/${parent}/photos`, "new"), "utf8")).toBe("by a pod");
      for (const volumeId of [volumeHandle, other.volumeId]) await deleteVolume(world, volumeId);
      expect(await codeOf(world.controller("controllerGetVolume", { volumeId: volumeHandle }))).not.toBe("ok");
    } finally {
      expect(await world.end()).toEqual([]);
    }
  },
  900_000,
);
