import { expect, test } from "bun:test";
import { readFileSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { filesystems } from "../../../lib/node/disks/filesystems.ts";
import { callOf, codeOf, spying } from "../lab.ts";
import { Disk, hasLoops, hasProgram, leastFor, mayResize, noSettings, sh } from "./disk.ts";

const mountable = readFileSync("/proc/filesystems", "utf8");
const kernelHas = (type: string): boolean => new RegExp(`\\b${type}$`, "m").test(mountable);
const types = Object.keys(filesystems);
const toolOf = (type: string): boolean => hasProgram(`mkfs.${type}`);

const signature = (path: string): string => sh('blkid -p -o value -s TYPE "$1"', path).trim();

for (const type of types) {
  test.skipIf(!hasLoops || !toolOf(type))(`an empty disk gets ${type}, once`, async () => {
    using disk = new Disk(leastFor(type));
    const made = await disk.filesystems().prepare(disk.device, disk.wanted({ fsType: type }), callOf());
    expect(made).toMatchObject({ source: disk.path, number: disk.device.number, fsType: filesystems[type]?.mountType });
    expect(signature(disk.path)).toBe(type);
    const before = disk.hash();
    for (const fsType of [type, undefined]) {
      expect(await disk.filesystems().prepare(disk.device, disk.wanted({ fsType }), callOf())).toEqual(made);
    }
    expect(disk.hash()).toBe(before);
    expect(sh('grep -c "csimux is making" "$1" || true', disk.file).trim()).toBe("0");
  });
}

test.skipIf(!hasLoops)("mkfs gets the options of the class instead of those of the node", async () => {
  using disk = new Disk();
  const before = disk.hash();
  const node = disk.filesystems(undefined, { check: {}, format: { ext4: ["-m", "3", "-N", "64"] } });
  const wrong = node.prepare(disk.device, disk.wanted({ mkfsOptions: "-m 1 -F" }), callOf());
  expect(await codeOf(wrong)).toBe("invalid-argument");
  expect(disk.hash()).toBe(before);
  await node.prepare(disk.device, disk.wanted({ mkfsOptions: "-m 10 -i 65536" }), callOf());
  const [, total, reserved] =
    /Block count: +(\d+)\nReserved block count: +(\d+)/.exec(sh('dumpe2fs -h "$1"', disk.path)) ?? [];
  expect(Number(reserved) / Number(total)).toBeCloseTo(0.1, 2);
  expect(Number(/Inode count: +(\d+)/.exec(sh('dumpe2fs -h "$1"', disk.path))?.[1])).toBeGreaterThan(512);
  // What exists is not judged: nothing is made any more.
  await node.prepare(disk.device, disk.wanted({ mkfsOptions: "-F" }), callOf());
});

for (const type of ["ext3", "ext4", "xfs", "btrfs"].filter(kernelHas)) {
  const canGrow = hasLoops && toolOf(type) && (mayResize || !type.startsWith("ext"));
  test.skipIf(!canGrow)(`${type} is mounted and grows with its disk`, async () => {
    using disk = new Disk(leastFor(type));
    const node = disk.filesystems();
    const made = await node.prepare(disk.device, disk.wanted({ fsType: type }), callOf());
    const at = disk.mount(made.fsType, made.options);
    writeFileSync(join(at, "file"), "kept");
    disk.grow(2 * leastFor(type));
    const before = statfsSync(at);
    await node.grow(made, at, callOf());
    const after = statfsSync(at);
    expect(after.blocks * after.bsize).toBeGreaterThan(before.blocks * before.bsize * 1.8);
    expect(readFileSync(join(at, "file"), "utf8")).toBe("kept");
  });

  test.skipIf(!hasLoops || !toolOf(type))(
    `nothing is written to ${type} that is only read, even after a crash`,
    async () => {
      using source = new Disk(leastFor(type));
      const made = await source.filesystems().prepare(source.device, source.wanted({ fsType: type }), callOf());
      const at = source.mount(made.fsType, made.options);
      writeFileSync(join(at, "file"), "kept");
      sh('sync -f "$1"', at);
      // The state after a crash: a copy of the mounted disk, with its journal not replayed.
      using disk = new Disk(leastFor(type));
      sh('cp "$1" "$2"; blockdev --flushbufs "$3"', source.file, disk.file, disk.path);
      const before = disk.hash();
      const seen = await disk.filesystems().prepare(disk.device, disk.wanted({ readonly: true }), callOf());
      const mounted = disk.mount(seen.fsType, seen.options);
      sh('ls "$1"; umount "$1"', mounted);
      expect(disk.hash()).toBe(before);
    },
  );
}

test.skipIf(!hasLoops)(
  "a file system of another type than the requested one is neither replaced nor mounted",
  async () => {
    using disk = new Disk();
    sh('mkfs.ext4 -q "$1"', disk.path);
    const before = disk.hash();
    const other = disk.filesystems().prepare(disk.device, disk.wanted({ fsType: "xfs" }), callOf());
    await expect(other).rejects.toThrow(`${disk.path} holds ext4, but xfs was requested`);
    expect(disk.hash()).toBe(before);
  },
);

test.skipIf(!hasLoops)("an unknown file system is refused before the disk is checked", async () => {
  using disk = new Disk();
  const runner = spying();
  const unknown = disk.filesystems(runner).prepare(disk.device, disk.wanted({ fsType: "zfs" }), callOf());
  expect(await codeOf(unknown)).toBe("invalid-argument");
  expect(runner.ran).toEqual([]);
});

test.skipIf(!hasLoops)("a read-only volume is not formatted", async () => {
  using disk = new Disk();
  const before = disk.hash();
  const empty = disk.filesystems().prepare(disk.device, disk.wanted({ readonly: true }), callOf());
  expect(await codeOf(empty)).toBe("failed-precondition");
  expect(disk.hash()).toBe(before);
});

test.skipIf(!hasLoops)("the settings add options of mkfs", async () => {
  using disk = new Disk();
  const node = disk.filesystems(undefined, { ...noSettings, format: { ext4: ["-L", "mine"] } });
  await node.prepare(disk.device, disk.wanted(), callOf());
  expect(sh('blkid -p -o value -s LABEL "$1"', disk.path).trim()).toBe("mine");
});

test.skipIf(!hasLoops || !toolOf("xfs"))(
  "an xfs has no features newer than kernel 5.4, unless the settings enable them",
  async () => {
    for (const [options, bigtime] of [
      [[], "0"],
      [["-m", "bigtime=1"], "1"],
    ] as const) {
      using disk = new Disk(leastFor("xfs"));
      const node = disk.filesystems(undefined, { ...noSettings, format: { xfs: options } });
      await node.prepare(disk.device, disk.wanted({ fsType: "xfs" }), callOf());
      const shown = sh('xfs_db -r -c version "$1"', disk.path);
      expect([shown.includes("BIGTIME"), shown.includes("INOBTCNT")]).toEqual([bigtime === "1", false]);
    }
  },
);

test.skipIf(!hasLoops)("a check that corrected errors passes, one that could not is a final error", async () => {
  using disk = new Disk();
  sh('mkfs.ext4 -q "$1"; debugfs -w -R "set_super_value free_blocks_count 7" "$1" 2>/dev/null', disk.path);
  const on = { enabled: true, options: [] };
  const node = disk.filesystems(undefined, { ...noSettings, check: { ext4: on } });
  await node.prepare(disk.device, disk.wanted(), callOf());
  expect(sh('dumpe2fs -h "$1" 2>/dev/null | grep "^Free blocks"', disk.path)).not.toMatch(/ 7$/m);
  // e2fsck(8) ends with 0 now, because it finds no errors.
  expect(await node.prepare(disk.device, disk.wanted(), callOf())).toMatchObject({ fsType: "ext4" });

  sh('debugfs -w -R "clri <2>" "$1" 2>/dev/null', disk.path);
  const broken = node.prepare(disk.device, disk.wanted(), callOf());
  await expect(broken).rejects.toThrow("repair the file system manually");
  expect(await codeOf(broken)).toBe("failed-precondition");
});

test.skipIf(!(hasLoops && toolOf("xfs")))(
  "the check of an xfs after a crash leaves its log to be replayed",
  async () => {
    using source = new Disk(leastFor("xfs"));
    const made = await source.filesystems().prepare(source.device, source.wanted({ fsType: "xfs" }), callOf());
    const at = source.mount(made.fsType, made.options);
    for (const name of ["a", "b", "c"]) writeFileSync(join(at, name), "kept");
    sh('sync -f "$1"', at);
    using disk = new Disk(leastFor("xfs"));
    sh('cp "$1" "$2"; blockdev --flushbufs "$3"', source.file, disk.file, disk.path);
    const node = disk.filesystems(undefined, { ...noSettings, check: { xfs: { enabled: true, options: [] } } });
    expect(await codeOf(node.prepare(disk.device, disk.wanted(), callOf()))).toBe("ok");
  },
);

test.skipIf(!hasLoops).each([
  ["ext4", 1],
  ["xfs", 299],
])(
  "a disk too small for %s is refused for good, stays as it is, and takes another file system",
  async (fsType, size) => {
    using disk = new Disk(size);
    const before = disk.hash();
    const refused = disk.filesystems().prepare(disk.device, disk.wanted({ fsType }), callOf());
    await expect(refused).rejects.toThrow(`${size << 20} bytes, and ${fsType} needs `);
    expect(await codeOf(refused)).toBe("failed-precondition");
    expect(disk.hash()).toBe(before);
    if (size > 1) expect(await codeOf(disk.filesystems().prepare(disk.device, disk.wanted(), callOf()))).toBe("ok");
  },
);
