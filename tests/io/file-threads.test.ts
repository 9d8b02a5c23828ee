import { describe, expect, test } from "bun:test";
import { deviceOf, devicesOf, FileThreads } from "../../lib/io/file-threads.ts";

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

describe("threads by disk", () => {
  test("folders of one device share their slots, those of another have their own", () => {
    const threads = new FileThreads(() => devicesOf(table));
    expect(threads.on("/srv/a")).toBe(threads.on("/srv/bound/b"));
    expect(threads.on("/srv/a")).toBe(threads.onDevice("8:1"));
    expect(threads.on("/srv/a")).not.toBe(threads.on("/mnt/my disk/v"));
  });

  test("all mounts of a server share one set of slots, separate from the devices", () => {
    const threads = new FileThreads(() => devicesOf(table));
    expect(threads.onServer("nas")).toBe(threads.onServer("nas"));
    expect(threads.onServer("8:1")).not.toBe(threads.onDevice("8:1"));
  });

  test("idle devices are forgotten", async () => {
    const threads = new FileThreads(() => devicesOf(table));
    const idle = threads.onDevice("9:1");
    const { promise, resolve } = Promise.withResolvers<void>();
    const busy = threads.onDevice("9:2");
    const work = busy.run(() => promise);
    for (let n = 0; n < 300; n++) threads.onDevice(`10:${n}`);
    expect(threads.onDevice("9:1")).not.toBe(idle);
    expect(threads.onDevice("9:2")).toBe(busy);
    resolve();
    await work;
  });

  test("a disk that is mounted later is a device of its own after ten seconds", () => {
    let now = 0;
    let text = table;
    const threads = new FileThreads(
      () => devicesOf(text),
      () => now,
    );
    const before = threads.on("/srv/new/v");
    text = `${table}40 30 8:33 / /srv/new rw - ext4 /dev/sdc1 rw\n`;
    expect(threads.on("/srv/new/v")).toBe(before);
    now = 10_001;
    expect(threads.on("/srv/new/v")).not.toBe(before);
    expect(threads.on("/srv/old/v")).toBe(before);
  });
});
