import { expect, test } from "bun:test";
import { truncateSync } from "node:fs";
import { BlockDevices } from "../../../lib/node/disks/block-device.ts";
import { dataOn, extentsOf } from "../../../lib/node/disks/contents.ts";
import { callOf, calm, codeOf, spying } from "../lab.ts";
import { Disk, hasLoops, hasProgram, sh } from "./disk.ts";

const mebibyte = 1n << 20n;
const gibibyte = 1n << 30n;
const sizes = [4096n, 5000n * 512n, 64n * mebibyte, gibibyte, 16n * gibibyte, 1000n * gibibyte, 64n * 1024n * gibibyte];

test.each(sizes)("the checked positions are within a disk of %p bytes, unique and not too many", bytes => {
  const places = extentsOf(bytes);
  expect(places[0]).toBe(0n);
  expect(places.length).toBeLessThan(5_600);
  expect(
    places.every((at, index) => at % 4096n === 0n && at < bytes && (index === 0 || at > (places[index - 1] ?? 0n))),
  ).toBe(true);
});

test("every 4 MiB of a disk of 16 GiB, and every byte of one of 64 MiB, is checked", () => {
  const apart = (bytes: bigint) => extentsOf(bytes).map((at, index, all) => (all[index + 1] ?? bytes) - at);
  expect(apart(16n * gibibyte).every(step => step <= 4n * mebibyte)).toBe(true);
  expect(apart(64n * mebibyte).every(step => step <= 16_384n)).toBe(true);
});

test.each([
  ["ext4, blocks of 1 KiB, group 27", 27n * 8n * mebibyte, 100n * gibibyte],
  ["ext4, blocks of 4 KiB, group 1", 128n * mebibyte, 7000n * gibibyte],
  ["ext4, blocks of 4 KiB, group 2401", 2401n * 128n * mebibyte, 7000n * gibibyte],
  ["xfs, the second of four groups", 250n * gibibyte + 4096n * 300n, 1000n * gibibyte + 4n * 4096n * 300n],
  ["xfs, the third group of 1 TiB", 2048n * gibibyte, 7000n * gibibyte],
  ["btrfs, the second mirror", 256n * gibibyte, 7000n * gibibyte],
])("copies of superblocks are checked: %s", (_, at, bytes) => {
  expect(extentsOf(bytes)).toContain(at);
});

/** Remains of earlier use that neither blkid nor the ends of the disk show: a script for the disk $1, and its MiB. */
const remains: Readonly<
  Record<string, { readonly script: string; readonly mebibytes: number; readonly needs?: string }>
> = {
  "4 MiB of random bytes at 100 MiB": {
    script: 'dd if=/dev/urandom of="$1" bs=1M seek=100 count=4 conv=notrunc',
    mebibytes: 1024,
  },
  "4 MiB of random bytes far behind, at an odd place": {
    script: 'head -c 4194304 /dev/urandom | dd of="$1" bs=4096 seek=3000001 conv=notrunc iflag=fullblock',
    mebibytes: 16_384,
  },
  "an ext4 with files, of which the first MiB is gone": {
    script: 'mkfs.ext4 -q -d /etc "$1"; dd if=/dev/zero of="$1" bs=1M count=1 conv=notrunc',
    mebibytes: 512,
  },
  "an ext4 of which nothing but a copy of the superblock is left": {
    script:
      'mkfs.ext4 -q "$1"; dd if="$1" of="$1.s" bs=4096 skip=32768 count=1; blkdiscard -z "$1"; dd if="$1.s" of="$1" bs=4096 seek=32768 conv=notrunc; rm "$1.s"',
    mebibytes: 300,
  },
  "an ext4 with blocks of 1 KiB of which nothing but a copy of the superblock is left": {
    script:
      'mkfs.ext4 -q -b 1024 "$1"; dd if="$1" of="$1.s" bs=1024 skip=8193 count=1; blkdiscard -z "$1"; dd if="$1.s" of="$1" bs=1024 seek=8193 conv=notrunc; rm "$1.s"',
    mebibytes: 2048,
  },
  "an xfs of which the first MiB is gone": {
    script: 'mkfs.xfs -q "$1"; dd if=/dev/zero of="$1" bs=1M count=1 conv=notrunc',
    mebibytes: 400,
    needs: "mkfs.xfs",
  },
  "a btrfs of which the first MiB is gone": {
    script: 'mkfs.btrfs -q "$1"; dd if=/dev/zero of="$1" bs=1M count=1 conv=notrunc',
    mebibytes: 200,
    needs: "mkfs.btrfs",
  },
  "one byte at 256 GiB": {
    script: 'printf x | dd of="$1" bs=1M seek=262144 conv=notrunc',
    mebibytes: 1 << 20,
  },
};

for (const [what, { script, mebibytes, needs }] of Object.entries(remains)) {
  test.skipIf(!hasLoops || (needs !== undefined && !hasProgram(needs)))(
    `a disk with ${what} is never written to`,
    async () => {
      using disk = new Disk(mebibytes);
      sh(`{ ${script}; } >/dev/null 2>&1; blockdev --flushbufs "$1"; sync "$1"`, disk.path);
      const spy = spying();
      for (const fsType of ["ext4", "xfs", undefined]) {
        const preparing = disk.filesystems(spy).prepare(disk.device, disk.wanted({ fsType }), callOf());
        expect([fsType, await codeOf(preparing)]).toEqual([fsType, "failed-precondition"]);
      }
      expect(spy.ran.filter(line => /^(?:mkfs|dd|mke2fs|wipefs)/.test(line))).toEqual([]);
    },
  );
}

test.skipIf(!hasLoops)("a disk erased as the message advises is formatted", async () => {
  using disk = new Disk(256);
  sh('dd if=/dev/urandom of="$1" bs=1M seek=100 count=4 conv=notrunc status=none', disk.path);
  const refused = await disk
    .filesystems()
    .prepare(disk.device, disk.wanted(), callOf())
    .catch((error: Error) => error);
  const advice = /blkdiscard -z \S+$/.exec("message" in refused ? refused.message : "")?.[0] ?? "false";
  sh(advice);
  expect(await disk.filesystems().prepare(disk.device, disk.wanted(), callOf())).toMatchObject({ fsType: "ext4" });
});

test.skipIf(!hasLoops)("an empty disk of 1 TiB is checked in no more than 5,600 reads of 16 KiB", async () => {
  using disk = new Disk(1 << 20);
  const device = await new BlockDevices("/sys").at(disk.path);
  const reads = () => Number(sh('awk "{print \\$3}" "/sys/class/block/$1/stat"', device.name));
  const before = reads();
  expect(await dataOn(device, calm)).toBeUndefined();
  expect((reads() - before) * 512).toBeLessThan(5_600 * 16_384);
});

test.skipIf(!hasLoops)("a disk with an unreadable part in the middle does not count as empty", async () => {
  using disk = new Disk(1024);
  const device = await new BlockDevices("/sys").at(disk.path);
  truncateSync(disk.file, 500 << 20);
  expect(await codeOf(dataOn(device, calm))).toBe("unavailable");
});

test.skipIf(!hasLoops)("checking a disk ends with the call", async () => {
  using disk = new Disk(1024);
  const device = await new BlockDevices("/sys").at(disk.path);
  expect(await codeOf(dataOn(device, AbortSignal.abort()))).toBe("unavailable");
});
