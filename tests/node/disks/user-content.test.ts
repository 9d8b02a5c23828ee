import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { closeSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { PrepareRequest } from "../../../lib/node/disks/disk-filesystems.ts";
import { callOf } from "../lab.ts";
import { Disk, endsAsArray, hasLoops, hasProgram, leastFor, sh } from "./disk.ts";

/**
 * 4 MiB of a disk image whose ZFS labels blkid finds: uberblocks of 1 KiB that begin with ub_magic and ub_version (OpenZFS 2.1,
 * include/sys/uberblock_impl.h; util-linux 2.38, libblkid/src/superblocks/zfs.c, find_uberblocks).
 */
const uberblocks = (() => {
  const block = Buffer.alloc(1024);
  block.writeBigUInt64LE(0x00bab10cn, 0);
  block.writeBigUInt64LE(28n, 8);
  return Buffer.alloc(4 << 20, block);
})();

/** Writes such an image of at most this many MiB into the mounted file system. */
function writeImage(path: string, mebibytes: number): void {
  const file = openSync(path, "w");
  try {
    for (let left = mebibytes; left > 0; left -= 4) writeSync(file, uberblocks);
  } catch {
    // The file system is full, and so is the end of its disk.
  } finally {
    closeSync(file);
  }
}

/** What users' files leave on a disk with a file system, by the type of that. */
const cases: Readonly<Record<string, (disk: Disk, at: string) => void>> = {
  xfs: (_, at) => ["a", "b"].forEach(name => void writeImage(join(at, name), 60)),
  btrfs: (_, at) => writeImage(join(at, "a"), 1000),
  ext4: disk => void sh(endsAsArray, disk.path),
};

const caught = (error: Error) => error;

/** blkid's answer for the whole disk: its exit code, and the type that it names. */
const blkid = (path: string) => {
  const { status, stdout } = spawnSync("blkid", ["-p", "-o", "value", "-s", "TYPE", path], { encoding: "utf8" });
  return { status, type: stdout.trim() };
};

for (const [type, use] of Object.entries(cases)) {
  test.skipIf(!hasLoops || !hasProgram(`mkfs.${type}`))(
    `${type} with files that look like other signatures is mounted, and no other type is found or advised to be erased`,
    async () => {
      using disk = new Disk(leastFor(type));
      const node = disk.filesystems();
      const prepare = (wanted: Partial<PrepareRequest>) => node.prepare(disk.device, disk.wanted(wanted), callOf());
      const { options } = await prepare({ fsType: type });
      use(disk, disk.mount(type, options));
      disk.unmount();
      expect(blkid(disk.path)).not.toEqual({ status: 0, type });
      const before = disk.hash();
      const other = type === "xfs" ? "ext4" : "xfs";
      const refusal = `${disk.path} holds ${type}, but ${other} was requested; request ${type}`;
      expect(await prepare({ fsType: other }).catch(caught)).toMatchObject({ message: refusal });
      for (const wanted of [{ fsType: type }, { formerly: type }, { fsType: type, readonly: true }])
        expect(await prepare(wanted)).toMatchObject({ source: disk.path, fsType: type });
      // What csimux makes if nothing is named is the only type that is assumed.
      const unnamed = await prepare({}).catch(caught);
      expect(unnamed).toMatchObject(type === "ext4" ? { fsType: type } : { code: "failed-precondition" });
      expect(disk.hash()).toBe(before);
      disk.mount(type, options);
      disk.unmount();
    },
  );
}
