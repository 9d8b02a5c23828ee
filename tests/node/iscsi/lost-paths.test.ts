import { describe, expect, test } from "bun:test";
import { Disk, hasLoops, held } from "../disks/disk.ts";
import { FakeVolume } from "../fake-volume.ts";
import { codeOf } from "../lab.ts";
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
    expect([host.maps, host.records, host.ran.filter(line => /^(?:multipath|blockdev)/.test(line))]).toEqual([
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
    expect([await codeOf(volume.detach(host)), host.maps]).toEqual(["unavailable", ["dm-0"]]);
    free();
    await volume.detach(host);
    expect(host.maps).toEqual([]);
  });

  test("stays if it is of another disk, or has got a path from someone else", async () => {
    using host = new FakeHost(one, two);
    const volume = await mapped(host);
    loseAll(host);
    const { map } = volume.notes;
    volume.notes["map"] = "mpath-naa.1";
    await volume.detach(host);
    expect([map, host.maps]).toEqual(["mpath-naa.0", ["dm-0"]]);
    volume.notes["map"] = "mpath-naa.0";
    host.foreignSession("10.0.0.3:3260", "0");
    host.join("sda", "dm-0");
    await volume.detach(host);
    expect(host.maps).toEqual(["dm-0"]);
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
