import { describe, expect, test } from "bun:test";
import { globSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseMountinfo } from "../../../lib/core/mountinfo.ts";
import { MountTable } from "../../../lib/node/mount/mount-table.ts";
import { Disk, hasLoops, held } from "../disks/disk.ts";
import { FakeVolume } from "../fake-volume.ts";
import { callOf, codeOf, writer } from "../lab.ts";
import { FakeHost, iqn } from "./fake-host.ts";

const [one, two] = ["10.0.0.1:3260", "10.0.0.2:3260"];
const volumeOf = (id = "a", more: Readonly<Record<string, string>> = {}) =>
  new FakeVolume(id, { node_attach_driver: "iscsi", iqn, lun: "0", portals: `${one},${two}`, ...more });

/** A volume with two paths in a map, as attached. */
async function mapped(host: FakeHost): Promise<FakeVolume> {
  host.multipath = true;
  const volume = volumeOf();
  await volume.attach(host);
  return volume;
}

const mapsOf = ({ root }: FakeHost) =>
  readdirSync(join(root, "sys/class/block")).filter(name => name.startsWith("dm-"));

/**
 * A session that is lost; "FREE" after its recovery time, whose disks then fail at once (Linux 6.1, scsi_transport_iscsi.c,
 * session_recovery_timedout).
 */
function lapse({ root }: FakeHost, session: string, state: "FAILED" | "FREE"): void {
  const folder = join(root, "sys/class/iscsi_session", session);
  writeFileSync(join(folder, "state"), `${state}\n`);
  for (const disk of globSync(join(folder, "device/target*/*/state")))
    writeFileSync(disk, state === "FREE" ? "transport-offline\n" : "blocked\n");
}

const loseAll = (host: FakeHost) => {
  for (const session of host.sessions) host.lose(session);
};

describe("a map that has lost all paths", () => {
  test("is removed with the volume, and not written to, which would wait for a path", async () => {
    using host = new FakeHost(one, two);
    const volume = await mapped(host);
    loseAll(host);
    host.ran.length = 0;
    await volume.detach(host);
    expect([mapsOf(host), host.records, host.ran.filter(line => /^(?:multipath|blockdev)/.test(line))]).toEqual([
      [],
      [],
      ["multipath -f mpath0"],
    ]);
  });

  test.skipIf(!hasLoops)("keeps the volume attached while it is in use", async () => {
    using host = new FakeHost(one, two);
    using disk = new Disk(1);
    const volume = await mapped(host);
    loseAll(host);
    const free = held(host, "dm-0", disk);
    expect([await codeOf(volume.detach(host)), mapsOf(host)]).toEqual(["unavailable", ["dm-0"]]);
    free();
    await volume.detach(host);
    expect(mapsOf(host)).toEqual([]);
  });

  test("stays if it is of another disk, or has got a path from someone else", async () => {
    using host = new FakeHost(one, two);
    const volume = await mapped(host);
    loseAll(host);
    const { map } = volume.notes;
    volume.notes["map"] = "mpath-naa.1";
    await volume.detach(host);
    expect([map, mapsOf(host)]).toEqual(["mpath-naa.0", ["dm-0"]]);
    volume.notes["map"] = "mpath-naa.0";
    host.foreignSession("10.0.0.3:3260", "0");
    host.join("sda", "dm-0");
    await volume.detach(host);
    expect(mapsOf(host)).toEqual(["dm-0"]);
  });
});

test.skipIf(!hasLoops)("a path that something holds when its map is removed is not removed", async () => {
  using host = new FakeHost(one, two);
  using disk = new Disk(1);
  const volume = await mapped(host);
  let free = () => {};
  host.before = line => {
    if (!line.startsWith("multipath -f")) return;
    host.before = () => {};
    free = held(host, "sdb", disk);
  };
  expect([await codeOf(volume.detach(host)), host.disks]).toEqual(["unavailable", ["sda", "sdb"]]);
  free();
  await volume.detach(host);
  expect([host.disks, host.sessions]).toEqual([[], []]);
});

test("a session through which a single disk of someone else is seen stays", async () => {
  using host = new FakeHost(one);
  host.luns.set("1", { wwid: "naa.1", mebibytes: 8 });
  const volume = volumeOf("a", { portals: one });
  await volume.attach(host);
  await host.run({ argv: ["dd", `of=${host.root}/sys/class/scsi_host/host1/scan`], stdin: "0 0 1" });
  expect(host.disks).toEqual(["sda", "sdb"]);
  await volume.detach(host);
  expect([host.disks, host.sessions]).toEqual([["sdb"], ["session1"]]);
});

test("a volume whose disk csimux has not attached gets no path from it", async () => {
  using host = new FakeHost(one);
  host.multipath = true;
  host.foreignSession(one);
  expect([await volumeOf("a", { portals: one }).restore(host), host.disks, host.ran]).toEqual([[], [], []]);
});

describe("a session that stays down while its portal answers", () => {
  test("is opened again when another path of the map works, and its path joins the map", async () => {
    using host = new FakeHost(one, two);
    const volume = await mapped(host);
    lapse(host, "session1", "FREE");
    expect([await volume.restore(host), host.sessions]).toEqual([
      ["session 3", expect.stringMatching(/^sd[ab]$/)],
      ["session2", "session3"],
    ]);
    expect(await host.attacher().health?.(volume)).toEqual([]);
    await volume.detach(host);
    expect([host.sessions, host.disks, host.records, mapsOf(host)]).toEqual([[], [], [], []]);
  });

  test.each<[string, (host: FakeHost) => void]>([
    ["its recovery time has not passed", host => lapse(host, "session1", "FAILED")],
    ["its portal does not answer", host => host.portals.clear()],
    ["no other path works", host => lapse(host, "session2", "FREE")],
    ["multipathd does not run, which would not take the path back", host => Object.assign(host, { multipath: false })],
    ["a disk without a map is seen through it", host => host.luns.set("1", { wwid: "naa.1", mebibytes: 8 })],
  ])("stays below a mounted volume while %s", async (_, change) => {
    using host = new FakeHost(one, two);
    const volume = await mapped(host);
    lapse(host, "session1", "FREE");
    change(host);
    await host.run({ argv: ["dd", `of=${host.root}/sys/class/scsi_host/host1/scan`], stdin: "0 0 1" });
    expect([await volume.restore(host), host.sessions]).toEqual([[], ["session1", "session2"]]);
  });

  test.each([false, true])("is opened again for staging if nothing uses its disks (multipath: %p)", async multipath => {
    using host = new FakeHost(one, two);
    host.multipath = multipath;
    const volume = volumeOf();
    const { path } = await volume.attach(host);
    for (const session of host.sessions) lapse(host, session, "FREE");
    expect(await volume.attach(host)).toMatchObject({ path });
    expect(host.sessions).toEqual(multipath ? ["session3", "session4"] : ["session2"]);
  });

  const published = "1 1 0:5 / / rw - ext4 a rw\n30 1 0:5 /sda /var/lib/kubelet/a rw - devtmpfs udev rw";
  test.skipIf(!hasLoops).each<[string, (host: FakeHost, disk: Disk) => unknown, string]>([
    ["its disk is mounted", (host, disk) => held(host, "sda", disk), ""],
    [
      "the map on its disk is mounted",
      (host, disk) => {
        host.stack("sda", "dm-9", "mpath-naa.0");
        return held(host, "dm-9", disk);
      },
      "",
    ],
    ["its disk is given to a pod", () => {}, published],
    [
      "it may be logging in for the first time",
      host => host.run({ argv: ["dd", `of=${host.root}/sys/block/sda/device/delete`], stdin: "1" }),
      "",
    ],
  ])("is not opened again for staging while %s", async (_, change, mounts) => {
    using host = new FakeHost(one);
    using disk = new Disk(1);
    const volume = volumeOf("a", { portals: one });
    await volume.attach(host);
    lapse(host, "session1", "FREE");
    const free = await change(host, disk);
    const given = {
      publishContext: {},
      capability: writer,
      readonly: false,
      table: new MountTable(parseMountinfo(mounts)),
    };
    const attaching = host.attacher().attach({ ...volume, ...given }, volume.note, callOf(AbortSignal.timeout(500)));
    expect([await codeOf(attaching), host.sessions]).toEqual(["unavailable", ["session1"]]);
    if (typeof free === "function") free();
  });

  test("is named with its portal, which answers", async () => {
    using host = new FakeHost(one);
    host.foreignSession(one, "0");
    lapse(host, "session1", "FREE");
    await expect(volumeOf("a", { portals: one }).attach(host)).rejects.toThrow(
      "not logged in, although the portal answers",
    );
    expect(host.sessions).toEqual(["session1"]);
  });
});
