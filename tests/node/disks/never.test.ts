import { expect, test } from "bun:test";
import { truncateSync } from "node:fs";
import { CommandError, type CommandRunner } from "../../../lib/io/runner.ts";
import { callOf, codeOf, local, spying } from "../lab.ts";
import { Disk, hasLoops, hasProgram, leastFor, nodesOf, sh } from "./disk.ts";

/** Scripts that turn the disk $1 into one that must never be formatted. */
const disks: Readonly<Record<string, { readonly script: string; readonly needs?: string }>> = {
  "with ext4": { script: 'mkfs.ext4 -q "$1"' },
  "with xfs": { script: 'mkfs.xfs -q "$1"', needs: "mkfs.xfs" },
  "with btrfs": { script: 'mkfs.btrfs -q "$1"', needs: "mkfs.btrfs" },
  "with ntfs": { script: 'mkfs.ntfs -q -Q -F "$1" 2>/dev/null', needs: "mkfs.ntfs" },
  "with vfat": { script: 'mkfs.vfat -I "$1"', needs: "mkfs.vfat" },
  "with LUKS": {
    script: 'echo word | cryptsetup -q luksFormat --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$1" -',
    needs: "cryptsetup",
  },
  "with LVM": { script: "put 512 'LABELONE\\1\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\40\\0\\0\\0LVM2 001'" },
  "with a ZFS label": {
    script: "for i in {0..127}; do put $((131072 + i * 1024)) '\\x0c\\xb1\\xba\\0\\0\\0\\0\\0'; done",
  },
  "with a ZFS label at its end alone": {
    script: "for i in {0..127}; do put $((size - 262144 + 131072 + i * 1024)) '\\x0c\\xb1\\xba\\0\\0\\0\\0\\0'; done",
  },
  "of an array (superblock at its beginning)": { script: "put 4096 '\\xfc\\x4e\\x2b\\xa9\\1\\0\\0\\0'" },
  "of an array (superblock at its end)": { script: "put $((size - 65536)) '\\xfc\\x4e\\x2b\\xa9\\0\\0\\0\\0'" },
  "with swap": { script: 'mkswap "$1"' },
  "with a GPT without partitions": { script: 'echo label: gpt | sfdisk -q "$1"', needs: "sfdisk" },
  "with an MBR": { script: 'echo ,100M | sfdisk -q --label dos "$1"', needs: "sfdisk" },
  "with two file systems at once": {
    script: 'mkfs.ext4 -q "$1"; put 82944 "_BHRfS_M"; put 510 "\\x55\\xaa"; mkswap -f "$1"',
  },
  "with random bytes in the first MiB": {
    script: 'head -c 100 /dev/urandom | dd of="$1" bs=1 seek=700000 conv=notrunc',
  },
  "with random bytes in the last MiB": {
    script: 'head -c 100 /dev/urandom | dd of="$1" bs=1 seek=$((size - 100)) conv=notrunc',
  },
  "with a truncated ext4 superblock": {
    script: 'mkfs.ext4 -q "$1"; dd if=/dev/zero of="$1" bs=1 seek=1080 count=900 conv=notrunc',
  },
  "whose ext4 superblock is gone": {
    script: 'mkfs.ext4 -q "$1"; dd if=/dev/zero of="$1" bs=1024 seek=1 count=1 conv=notrunc',
  },
};

const put = `put() { printf -- "$2" | dd of="$disk" bs=1 seek="$1" conv=notrunc status=none; }; disk=$1; size=$(blockdev --getsize64 "$1"); `;

/** A node without udev: programs find no udev database. */
const withoutUdev: CommandRunner = {
  where: "local",
  run: ({ argv, ...command }, signal) =>
    local.run(
      { ...command, argv: ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh", ...argv] },
      signal,
    ),
};

const writing = /^(?:mkfs|dd|mke2fs|sfdisk|wipefs)/;

for (const [what, { script, needs }] of Object.entries(disks)) {
  test.skipIf(!hasLoops || (needs !== undefined && !hasProgram(needs)))(
    `a disk ${what} is never written to`,
    async () => {
      using disk = new Disk(leastFor(what.slice(5)));
      sh(`${put}{ ${script}; } >/dev/null 2>&1`, disk.path);
      const before = disk.hash();
      for (const runner of [local, withoutUdev]) {
        for (const fsType of runner === local ? ["ext4", "xfs", "btrfs", undefined] : ["ext4"]) {
          const spy = spying();
          const spied: CommandRunner = {
            where: "local",
            run: (command, signal) => {
              spy.ran.push(command.argv.join(" "));
              return runner.run(command, signal);
            },
          };
          const outcome = await codeOf(disk.filesystems(spied).prepare(disk.device, disk.wanted({ fsType }), callOf()));
          if (what !== `with ${fsType}` && !(fsType === undefined && /with (?:ext4|xfs|btrfs|ntfs|vfat)$/.test(what))) {
            expect([fsType, outcome]).toEqual([fsType, "failed-precondition"]);
          }
          expect(spy.ran.filter(line => writing.test(line))).toEqual([]);
        }
      }
      expect(disk.hash()).toBe(before);
    },
  );
}

test.skipIf(!hasLoops)("an empty disk is not formatted if blkid is missing", async () => {
  using disk = new Disk();
  const before = disk.hash();
  const without: CommandRunner = {
    where: "local",
    run: async (command, signal) => {
      if (command.argv[0] === "blkid") throw new CommandError("local", "blkid", "missing", "there is no such program");
      return await local.run(command, signal);
    },
  };
  const refused = disk.filesystems(without).prepare(disk.device, disk.wanted(), callOf());
  expect(await codeOf(refused)).toBe("failed-precondition");
  expect(disk.hash()).toBe(before);
});

for (const exitCode of [1, 4, 8, 127]) {
  test.skipIf(!hasLoops)(`an empty disk is not formatted when blkid exits with ${exitCode}`, async () => {
    using disk = new Disk();
    const before = disk.hash();
    const odd: CommandRunner = {
      where: "local",
      run: async (command, signal) =>
        command.argv[0] === "blkid" ? { stdout: "", stderr: "", exitCode } : await local.run(command, signal),
    };
    const refused = disk.filesystems(odd).prepare(disk.device, disk.wanted(), callOf());
    expect(await codeOf(refused)).toBe(exitCode === 8 ? "failed-precondition" : "unavailable");
    expect(disk.hash()).toBe(before);
  });
}

test.skipIf(!hasLoops)("an empty disk with an unreadable part is not formatted", async () => {
  using disk = new Disk();
  truncateSync(disk.file, 20 << 20);
  const spy = spying();
  expect(await codeOf(disk.filesystems(spy).prepare(disk.device, disk.wanted(), callOf()))).toBe("unavailable");
  expect(spy.ran.filter(line => writing.test(line))).toEqual([]);
});

test.skipIf(!hasLoops)("a missing disk, or a file that is not a disk, is not formatted", async () => {
  using disk = new Disk();
  sh('losetup -d "$1"', disk.path);
  const spy = spying();
  const node = disk.filesystems(spy);
  for (const path of [disk.path, "/dev/no-such-disk"]) {
    expect(await codeOf(node.prepare({ ...disk.device, path }, disk.wanted(), callOf()))).toBe("unavailable");
  }
  const file = node.prepare({ ...disk.device, path: disk.file }, disk.wanted(), callOf());
  expect(await codeOf(file)).toBe("failed-precondition");
  expect(spy.ran).toEqual([]);
});

test.skipIf(!hasLoops || !hasProgram("sfdisk"))(
  "the file system in the last partition is used, and an empty partition is not formatted",
  async () => {
    using disk = new Disk(64, { partitions: true });
    sh('printf "size=16M\\nsize=32M\\n" | sfdisk -q --label gpt "$1" 2>&1; partx -u "$1" || partx -a "$1"', disk.path);
    using _ = nodesOf(disk.path, 2);
    const before = disk.hash();
    const empty = disk.filesystems().prepare(disk.device, disk.wanted(), callOf());
    await expect(empty).rejects.toThrow(`the partition ${disk.path}p2 holds no file system`);
    expect(disk.hash()).toBe(before);
    sh('mkfs.ext4 -q "$1p2"', disk.path);
    const found = await disk.filesystems().prepare(disk.device, disk.wanted(), callOf());
    expect(found).toMatchObject({ source: `${disk.path}p2`, fsType: "ext4" });
  },
);

test.skipIf(!hasLoops || !hasProgram("sfdisk"))(
  "the last of eleven partitions is the eleventh, not the ninth",
  async () => {
    using disk = new Disk(64, { partitions: true });
    const script = 'yes size=4M | head -11 | sfdisk -q --label gpt "$1" 2>&1; partx -u "$1" || partx -a "$1"';
    sh(script, disk.path);
    using _ = nodesOf(disk.path, 11);
    for (const part of ["9", "11"]) sh('mkfs.ext4 -q -L "part$2" "$1p$2"', disk.path, part);
    const found = await disk.filesystems().prepare(disk.device, disk.wanted(), callOf());
    expect(found).toMatchObject({ source: `${disk.path}p11`, fsType: "ext4" });
    expect(found.number).not.toBe(disk.device.number);
  },
);
