import { expect, test } from "bun:test";
import { disk, protocols } from "../../lib/core/access.ts";
import { mkfsContext, mkfsOptions } from "../../lib/core/mkfs-options.ts";

test.each([
  ["ext4", "-m 1 -E stride=4,stripe_width=16 -O ^has_journal,quota", 6],
  ["ext4", "  -m1\n-i 65536 ", 3],
  ["ext3", "-b 4096 -L data-1", 4],
  ["xfs", "-m reflink=0,rmapbt=1 -d su=64k,sw=4 -i size=1024", 6],
  ["xfs", "-i maxpct=1", 2],
  ["btrfs", "--nodesize=16k -m single -O ^no-holes,quota --csum xxhash", 7],
  ["vfat", "   ", 0],
])("mkfs of %s takes %p", (type, text, words) => {
  expect(mkfsOptions(text, type)).toHaveLength(words);
});

test.each([
  ["a journal on another device", "ext4", "-J device=/dev/sdb"],
  ["a journal instead of a file system", "ext4", "-O journal_dev"],
  ["a feature with which a mounted file system cannot grow", "ext4", "-O extent,sparse_super2"],
  ["a superblock alone", "ext4", "-S"],
  ["a feature that hardly anybody needs", "ext4", "-O bigalloc"],
  ["force", "ext4", "-F"],
  ["a dry run", "ext4", "-n"],
  ["its own UUID", "ext4", "-U 5f3c2b1a-0000-4000-8000-000000000000"],
  ["an offset into the device", "ext4", "-E offset=1048576"],
  ["an undo file", "ext4", "-z /tmp/undo"],
  ["the content of a folder", "ext4", "-d /etc"],
  ["another device", "ext4", "/dev/sdb"],
  ["a number of blocks, which is a size", "ext4", "-b 4096 1000"],
  ["a value that is not a number", "ext4", "-m lots"],
  ["no value", "ext4", "-m"],
  ["one option twice", "ext4", "-E stride=4 -E nodiscard"],
  ["one option twice, written together", "ext4", "-m 1 -m2"],
  ["an option of xfs", "ext4", "-s size=4096"],
  ["its own UUID", "xfs", "-m uuid=5f3c2b1a-0000-4000-8000-000000000000"],
  ["a log on another device", "xfs", "-l logdev=/dev/sdb"],
  ["a file", "xfs", "-d name=/dev/sdb,file=1"],
  ["a protofile", "xfs", "-p /etc/passwd"],
  ["force", "btrfs", "-f"],
  ["a root folder", "btrfs", "--rootdir=/etc"],
  ["several devices' profile", "btrfs", "-d raid0"],
  ["anything", "ntfs", "-c 4096"],
  ["anything, of a name from Object.prototype", "constructor", "-m 1"],
  ["more than 512 characters", "ext4", `-O ${Array(60).fill("has_journal").join()}`],
])("a class cannot give %s to mkfs of %s: %p", (_, type, text) => {
  expect(() => mkfsOptions(text, type)).toThrow(/^the parameter mkfsOptions: /);
});

test("the context of a volume has them only if nodes make its file system, of the type that is asked for or ext4", () => {
  const parameters = { mkfsOptions: " -m 1 " };
  const as = (kind: "mount" | "block", fsType?: string) =>
    [{ kind, fsType, mountFlags: [], mountGroup: undefined, mode: "single-node-writer" }] as const;
  expect(mkfsContext(parameters, disk, as("mount"))).toEqual({ mkfsOptions: "-m 1" });
  expect(mkfsContext(parameters, disk, as("mount", "ext3"))).toEqual({ mkfsOptions: "-m 1" });
  expect(() => mkfsContext(parameters, disk, as("mount", "xfs"))).toThrow('"-m 1" is not');
  expect(mkfsContext(parameters, disk, as("block"))).toEqual({});
  expect(mkfsContext(parameters, protocols.nfs, as("mount", "nfs"))).toEqual({});
  expect(mkfsContext({}, disk, as("mount"))).toEqual({});
  expect(mkfsContext({ mkfsOptions: "" }, disk, as("mount"))).toEqual({});
});
