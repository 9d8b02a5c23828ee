import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { codeOf, mebibytes, status, type World } from "../../serve/world.ts";
import { startCsimux } from "../rig.ts";
import { run, waitFor } from "../run.ts";
import { zfsDrivers } from "./zfs-drivers.ts";
import { storageHost } from "./zfs-host.ts";
import { deleteVolume, makeVolume, poolBelow } from "./zfs-pool.ts";

// What csimux makes of LIO is what targetcli would make: rtslib shows, saves and restores it, and nothing else that is saved is lost.

const fileOf = storageHost();
const saved = "/etc/rtslib-fb-target/saveconfig.json";
const limitMs = 1_200_000;

const iscsi = zfsDrivers.filter(({ connection }) => connection === "iscsi");

interface Config {
  readonly storage_objects: readonly { readonly name: string; readonly dev: string }[];
  readonly targets: readonly { readonly wwn: string }[];
}

const sorted = ({ storage_objects, targets }: Config) => ({
  storage_objects: storage_objects.toSorted((a, b) => a.name.localeCompare(b.name)),
  targets: targets.toSorted((a, b) => a.wwn.localeCompare(b.wwn)),
});
const savedNow = async () => sorted(JSON.parse(await readFile(saved, "utf8")) as Config);

/** What rtslib reads from the kernel. */
async function dumped() {
  const program = "import json; from rtslib_fb import RTSRoot; print(json.dumps(RTSRoot().dump()))";
  return sorted(JSON.parse(await run(["python3", "-c", program])) as Config);
}

const isThere = (iqn: string): boolean => existsSync(`/sys/kernel/config/target/iscsi/${iqn}/tpgt_1/lun/lun_0`);

/** A csimux on this machine as its storage host. */
async function within(work: (world: World) => Promise<void>): Promise<void> {
  const [driver] = iscsi;
  if (!driver) throw new Error("no driver for iSCSI");
  const world = await startCsimux({ connections: { iscsi: fileOf(driver) }, flags: ["--health-interval=3600"] });
  try {
    await work(world);
  } finally {
    expect(await world.end()).toEqual([]);
  }
  expect(await poolBelow("tank/iscsi/v")).toEqual([]);
}

test(
  "a target is saved field for field as rtslib saves it, and targetcli shows, saves and restores it",
  () =>
    within(async world => {
      const volumes = [await makeVolume(world, "iscsi", "one"), await makeVolume(world, "iscsi", "two")];
      const iqns = volumes.map(({ volumeContext }) => volumeContext["iqn"] ?? "");
      const before = await savedNow();
      expect(before.targets).toHaveLength(2);
      expect(before).toEqual(await dumped());
      const text = await readFile(saved, "utf8");
      expect(await run(["targetcli", "ls"])).toContain(iqns[0] ?? "-");
      await run(["targetcli", "saveconfig"]);
      expect(sorted(JSON.parse(text) as Config)).toEqual(await savedNow());
      await run(["targetcli", "clearconfig", "confirm=True"]);
      expect(iqns.map(isThere)).toEqual([false, false]);
      await run(["targetcli", "restoreconfig"]);
      expect(iqns.map(isThere)).toEqual([true, true]);
      expect(await dumped()).toEqual(before);
      for (const { volumeId } of volumes) await deleteVolume(world, volumeId);
      expect([await savedNow(), await dumped()]).toEqual([
        { storage_objects: [], targets: [] },
        { storage_objects: [], targets: [] },
      ]);
    }),
  limitMs,
);

test(
  "a change on a host that has not restored its targets loses none of them",
  () =>
    within(async world => {
      const first = await makeVolume(world, "iscsi", "first");
      const backstore = ["name=theirs", "file_or_dev=/var/tmp/theirs", "size=16M"];
      await run(["targetcli", "/backstores/fileio", "create", ...backstore]);
      await run(["targetcli", "/iscsi", "create", "iqn.2003-01.org.other:theirs"]);
      await run(["targetcli", "saveconfig"]);
      const before = await savedNow();
      // As after a start, before the service that restores targets: the kernel has nothing.
      await run(["targetcli", "clearconfig", "confirm=True"]);
      const second = await makeVolume(world, "iscsi", "second");
      const after = await savedNow();
      expect(after.targets).toEqual(expect.arrayContaining([...before.targets]));
      expect(after.storage_objects).toEqual(expect.arrayContaining([...before.storage_objects]));
      await run(["targetctl", "restore"]);
      expect(await dumped()).toEqual(after);
      expect([first, second].map(({ volumeContext }) => isThere(volumeContext["iqn"] ?? ""))).toEqual([true, true]);
      for (const { volumeId } of [first, second]) await deleteVolume(world, volumeId);
      expect((await savedNow()).targets.map(({ wwn }) => wwn)).toEqual(["iqn.2003-01.org.other:theirs"]);
      await run(["targetcli", "/iscsi", "delete", "iqn.2003-01.org.other:theirs"]);
      await run(["targetcli", "/backstores/fileio", "delete", "theirs"]);
      await run(["targetcli", "saveconfig"]);
      await run(["rm", "-f", "/var/tmp/theirs"]);
    }),
  limitMs,
);

test(
  "a targetcli that a person has open is named, and a saved configuration that cannot be read stays as it is",
  () =>
    within(async world => {
      const request = { capacityRange: mebibytes(64) as never };
      // A host on which nothing was ever saved has no such file.
      await run(["targetcli", "saveconfig"]);
      const person = Bun.spawn(["sh", "-c", "sleep 3600 | targetcli"], { stdout: "ignore", stderr: "ignore" });
      try {
        await waitFor("the lock of targetcli", async () =>
          (await Bun.spawn(["flock", "-n", "/var/run/targetcli.lock", "true"]).exited) === 0 ? undefined : true,
        );
        const refused = world.create("one", "iscsi", request, 100_000).catch((error: unknown) => String(error));
        expect(await refused).toMatch(/targetcli\.lock is held by targetcli, process \d+/);
      } finally {
        await run(["pkill", "-P", String(person.pid)]);
        await person.exited;
      }
      const text = await readFile(saved, "utf8");
      await writeFile(saved, "{");
      expect(await codeOf(world.create("one", "iscsi", request, 100_000))).toBe(status.unavailable);
      expect(await readFile(saved, "utf8")).toBe("{");
      await writeFile(saved, text);
      const { volumeId } = await makeVolume(world, "iscsi", "one");
      await deleteVolume(world, volumeId);
    }),
  limitMs,
);

test(
  "a target that democratic-csi made with targetcli is deleted with its volume, and leaves nothing saved",
  () =>
    within(async world => {
      await run(["zfs", "create", "-p", "tank/iscsi/v"]);
      const ours = (key: string, value: string) => ["-o", `democratic-csi:${key}=${value}`];
      const marks = [
        ...ours("managed_resource", "true"),
        ...ours("csi_volume_name", "old"),
        ...ours("volume_context_provisioner_driver", "zfs-generic-iscsi"),
        ...ours("iscsi_assets_name", "old"),
      ];
      await run(["zfs", "create", "-s", "-V", "64M", ...marks, "tank/iscsi/v/old"]);
      await waitFor("the zvol", async () => existsSync("/dev/zvol/tank/iscsi/v/old") || undefined);
      const iqn = "iqn.2025-01.lab.csimux:zfs:old";
      await run(["targetcli", "/backstores/block", "create", "name=old", "dev=/dev/zvol/tank/iscsi/v/old"]);
      await run(["targetcli", "/iscsi", "create", iqn]);
      await run(["targetcli", `/iscsi/${iqn}/tpg1/luns`, "create", "/backstores/block/old"]);
      await run(["targetcli", "saveconfig"]);
      // Last, as democratic-csi does: csimux would give the target of a finished volume its LUN.
      await run(["zfs", "set", "democratic-csi:provision_success=true", "tank/iscsi/v/old"]);
      expect((await savedNow()).targets.map(({ wwn }) => wwn)).toEqual([iqn]);
      await deleteVolume(world, "v:iscsi/old");
      expect([await savedNow(), isThere(iqn)]).toEqual([{ storage_objects: [], targets: [] }, false]);
    }),
  limitMs,
);
