import { describe, expect, test } from "bun:test";
import { Disk, hasLoops, held } from "../disks/disk.ts";
import { FakeVolume } from "../fake-volume.ts";
import { codeOf } from "../lab.ts";
import { FakeHost, iqn } from "./fake-host.ts";

const [one, two] = ["10.0.0.1:3260", "10.0.0.2:3260"];

describe.skipIf(!hasLoops)("a multipath map of a disk with partitions, of which udev has made maps", () => {
  const volume = () => new FakeVolume("a", { node_attach_driver: "iscsi", iqn, lun: "0", portals: `${one},${two}` });

  test("is detached with them", async () => {
    using host = new FakeHost(one, two);
    using disk = new Disk(1);
    host.multipath = true;
    const attached = volume();
    await attached.attach(host);
    host.stack("dm-0", "dm-9", "part1-mpath-naa.0");
    const free = held(host, "dm-0", disk);
    host.before = line => {
      if (!line.startsWith("multipath -f")) return;
      host.before = () => {};
      free();
    };
    await attached.detach(host);
    expect([host.sessions, host.disks]).toEqual([[], []]);
    const flushed = host.ran.filter(line => line.startsWith("blockdev")).map(line => line.split("/").at(-1));
    expect(flushed).toEqual(["dm-9", "dm-0"]);
  });

  test.each([
    ["a partition is in use", "part1-mpath-naa.0", "dm-9"],
    ["something else is built on the map", "LVM-x", "dm-0"],
  ])("stays attached while %s", async (_, uuid, name) => {
    using host = new FakeHost(one, two);
    using disk = new Disk(1);
    host.multipath = true;
    const attached = volume();
    await attached.attach(host);
    host.stack("dm-0", "dm-9", uuid);
    const free = held(host, name, disk);
    expect(await codeOf(attached.detach(host))).toBe("unavailable");
    expect(host.ran.filter(line => line.startsWith("multipath -f"))).toEqual([]);
    expect(host.disks).toEqual(["sda", "sdb"]);
    free();
  });
});
