import { describe, expect, test } from "bun:test";
import { deviceOf, devicesOf, slotsByDisk } from "../../../lib/io/by-disk.ts";

const table = [
  "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw",
  "30 22 8:1 / /srv rw,relatime shared:1 - xfs /dev/sda1 rw",
  "31 30 8:1 /slow /srv/bound rw,relatime - xfs /dev/sda1 rw",
  "32 22 8:17 / /mnt/my\\040disk rw,relatime - ext4 /dev/sdb1 rw",
  "",
].join("\n");

describe("a path is on the device of the mount that is nearest above it", () => {
  test.each([
    ["/srv", "8:1"],
    ["/srv/fast/v/pvc-1", "8:1"],
    ["/srv/bound/v", "8:1"],
    ["/srvother/v", "254:0"],
    ["/mnt/my disk/v", "8:17"],
    ["/mnt", "254:0"],
    ["/", "254:0"],
  ])("%s is on %s", (path, device) => {
    expect(deviceOf(path, devicesOf(table))).toBe(device);
  });

  test("without a mount table everything is on one device", () => {
    expect(deviceOf("/srv/fast", devicesOf(""))).toBe("");
  });
});

describe("slots by disk", () => {
  test("folders of one device share their slots, those of another have their own", () => {
    const slotsOf = slotsByDisk(4, () => table);
    expect(slotsOf("/srv/a")).toBe(slotsOf("/srv/bound/b"));
    expect(slotsOf("/srv/a")).not.toBe(slotsOf("/mnt/my disk/v"));
  });

  test("a disk that is mounted later is a device of its own after ten seconds", () => {
    let now = 0;
    let text = table;
    const slotsOf = slotsByDisk(
      4,
      () => text,
      () => now,
    );
    const before = slotsOf("/srv/new/v");
    text = `${table}40 30 8:33 / /srv/new rw - ext4 /dev/sdc1 rw\n`;
    expect(slotsOf("/srv/new/v")).toBe(before);
    now = 10_001;
    expect(slotsOf("/srv/new/v")).not.toBe(before);
    expect(slotsOf("/srv/old/v")).toBe(before);
  });
});
