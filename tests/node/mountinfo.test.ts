import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { CsiError } from "../../lib/core/errors.ts";
import { parseMountinfo } from "../../lib/core/mountinfo.ts";
import { parseCounts, usageOf } from "../../lib/node/health/usage.ts";
import { checkedPath, normalPath, resolveParents } from "../../lib/node/mount/files.ts";
import { bindFlags, bindOptions, otherFlags } from "../../lib/node/mount/flags.ts";
import { MountTable, readMountTable } from "../../lib/node/mount/mount-table.ts";
import { calm, codeOf, Lab, mountinfo } from "./lab.ts";

describe("a line of mountinfo", () => {
  const line = (at: string, root = "/") =>
    `36 35 98:0 ${root} ${at} rw,noatime master:1 - ext3 /dev/root rw,errors=continue`;

  test("is parsed field by field", () => {
    expect(parseMountinfo(`${line("/mnt2", "/mnt1")}\n`)).toEqual([
      {
        id: 36,
        parent: 35,
        device: "98:0",
        root: "/mnt1",
        at: "/mnt2",
        options: ["rw", "noatime"],
        isShared: false,
        fsType: "ext3",
        source: "/dev/root",
        readOnly: false,
        isShutDown: false,
      },
    ]);
  });

  test.each([
    ["/a\\040b", "/a b"],
    ["/a\\011b", "/a\tb"],
    ["/a\\012b", "/a\nb"],
    ["/a\\134b", "/a\\b"],
    ["/a\\134040b", "/a\\040b"],
    ["/\\043x", "/#x"],
    ["/\u00fc\u4e2d", "/\u00fc\u4e2d"],
  ])("names %s as %j", (written, meant) => {
    expect(parseMountinfo(line(written))[0]?.at).toBe(meant);
  });

  test.each([
    ["no optional field", "1 0 8:1 / / rw - ext4 /dev/sda1 rw"],
    ["several optional fields", "1 0 8:1 / / rw shared:1 master:2 propagate_from:3 unbindable - ext4 /dev/sda1 rw"],
    ["an empty source", "1 0 0:1 / / rw - tmpfs  rw"],
    ["a file system with a subtype", "1 0 0:1 / / rw - fuse.sshfs me@host:/x rw"],
  ])("may have %s", (_, text) => {
    expect(parseMountinfo(text)).toHaveLength(1);
  });

  test.each([
    ["rw", "rw,errors=continue", false],
    ["ro", "ro,errors=remount-ro", true],
    ["rw", "rw,emergency_ro", true],
    ["ro", "rw,x=ro", false],
  ])("with mount options %s and file system options %s has a read-only file system: %p", (own, options, readOnly) => {
    expect(parseMountinfo(`1 0 8:1 / / ${own} - ext4 /dev/sda1 ${options}`)[0]?.readOnly).toBe(readOnly);
  });

  test("says whether the kernel has shut the file system down", () => {
    const table = parseMountinfo("1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 8:2 / /a rw - ext4 /dev/sdb rw,shutdown\n");
    expect(table.map(({ isShutDown }) => isShutDown)).toEqual([false, true]);
  });

  test.each([
    "x",
    "1 0 8:1 / / rw",
    "1 0 8:1 / relative rw - ext4 x rw",
    "a 0 8:1 / / rw - ext4 x rw",
    "1 0 8 / / rw - ext4 x rw",
    "1 0 8:1 / / rw -",
  ])("is refused as %j, instead of counting as unmounted", text => {
    expect(() => parseMountinfo(text)).toThrow("unknown form");
  });
});

describe("the mount table", () => {
  const table = new MountTable(
    parseMountinfo(
      [
        "1 0 8:1 / / rw - ext4 /dev/a rw",
        "2 1 8:2 / /a rw - ext4 /dev/b rw",
        "3 2 8:3 / /a/b rw - ext4 /dev/c rw",
        "4 2 8:1 /x /a rw - ext4 /dev/a rw",
        "5 1 8:1 /srv/one /one ro - ext4 /dev/a rw",
        "6 1 8:1 /srv/two /two rw - ext4 /dev/a rw",
        "7 1 8:1 /gone//deleted /three rw - ext4 /dev/a rw",
        "8 6 8:9 / /two rw - nfs4 host:/x rw",
        "9 1 8:1 / /abc rw - ext4 /dev/a rw",
      ].join("\n"),
    ),
  );

  test.each([
    ["/", 1],
    ["/ab", 1],
    ["/a", 4],
    ["/a/b", 4],
    ["/a/b/c", 4],
    ["/abc/d", 9],
    ["/two", 8],
  ])("at %s shows mount %d", (path, id) => {
    expect(table.covering(path)?.id).toBe(id);
  });

  test("distinguishes folders of one file system by root and device", () => {
    expect(table.identity("/one/sub")).toEqual({ device: "8:1", root: "/srv/one/sub" });
    expect(table.identity("/a/sub")).toEqual({ device: "8:1", root: "/x/sub" });
    expect(table.identity("/etc")).toEqual({ device: "8:1", root: "/etc" });
    expect(table.identity("/three").root).toBe("/gone//deleted");
  });

  test("distinguishes folders of one NFS server, whose root is always shown as /", () => {
    const nfs = new MountTable(
      parseMountinfo(
        [
          "1 0 8:1 / / rw - ext4 /dev/a rw",
          "2 1 0:40 / /nfs rw - nfs4 host:/x rw",
          "3 1 0:40 / /a rw - nfs4 host:/x/a\\040b rw",
          "4 1 0:41 / /whole rw - nfs host:/ rw",
        ].join("\n"),
      ),
    );
    expect(nfs.identity("/nfs/a b")).toEqual({ device: "0:40", root: "host:/x/a b" });
    expect(nfs.top("/a")).toMatchObject(nfs.identity("/nfs/a b"));
    expect(nfs.top("/a")).not.toMatchObject(nfs.identity("/nfs/c"));
    expect(nfs.identity("/whole/v").root).toBe("host:/v");
  });

  test("counts layers including hidden ones, and none where nothing is mounted", () => {
    expect([table.layers("/a"), table.layers("/two"), table.layers("/a/b"), table.layers("/etc")]).toEqual([
      2, 2, 1, 0,
    ]);
    expect(table.top("/a/b")).toBeUndefined();
    expect(table.top("/one")?.id).toBe(5);
  });

  test("without a root mount proves nothing", () => {
    expect(() => new MountTable([]).identity("/a")).toThrow(CsiError);
  });
});

describe("reading the table", () => {
  let lab: Lab;
  beforeEach(async () => {
    lab = await Lab.open();
  });
  afterEach(() => lab.close());

  test("returns the mounts of this process", async () => {
    expect((await readMountTable(mountinfo)).top("/proc")?.fsType).toBe("proc");
  });

  test.each([
    ["missing", undefined],
    ["nonsense", "nonsense\n"],
  ])("from a file that is %s is unavailable", async (_, text) => {
    if (text) await writeFile(lab.at("table"), text);
    expect(await codeOf(readMountTable(lab.at("table")))).toBe("unavailable");
  });
});

test.each<[string[], string[], string[]]>([
  [[], [], []],
  [["ro", "nosuid,nodev"], ["nodev", "nosuid", "ro"], []],
  [["defaults", "rw", "noatime"], ["noatime"], []],
  [["nfsvers=3", "suid", "exec", "context=a"], [], ["nfsvers=3", "suid", "exec", "context=a"]],
  [[" ro ", "", "ro"], ["ro"], []],
  [['context="u:r:t:s0:c1,c2"', "ro"], ["ro"], ['context="u:r:t:s0:c1,c2"']],
  [['nosuid, fscontext="u:r:t:s0:c1,c2" ,hard'], ["nosuid"], ['fscontext="u:r:t:s0:c1,c2"', "hard"]],
  [['context="a,bind'], [], ['context="a', "bind"]],
  [['context="a,bind"x'], [], ['context="a', 'bind"x']],
  [['other="a,bind"'], [], ['other="a', 'bind"']],
])("of the flags %j a bind mount carries %j and not %j", (flags, kept, left) => {
  expect(bindFlags(flags)).toEqual(kept);
  expect(otherFlags(flags)).toEqual(left);
});

test("the options of a bind mount never lose the protection of its source", () => {
  expect(bindOptions(["ro"], ["rw", "nosuid", "relatime"])).toEqual(["nosuid", "relatime", "ro"]);
  expect(bindOptions(["noatime"], ["nodev", "relatime"])).toEqual(["noatime", "nodev"]);
});

test.each([
  ["/a/b", "/a/b"],
  ["/a//b/", "/a/b"],
  ["/a/./b", "/a/b"],
  ["/a..b", "/a..b"],
  ["/...", "/..."],
  ["/a/..", undefined],
  ["/.", undefined],
  ["", undefined],
  ["a", undefined],
  ["/a\x7f", undefined],
])("the path %j is %j", (path, normal) => {
  expect(normalPath(path)).toBe(normal);
  if (normal === undefined) expect(() => checkedPath(path, "target_path")).toThrow("target_path");
});

test("a path in the mount table is not accessed", async () => {
  const lines = ["1 0 8:1 / / rw - ext4 /dev/a rw", "2 1 0:9 / /dev/fd/nfs rw - nfs4 host:/x rw"].join("\n");
  const table = new MountTable(parseMountinfo(lines));
  expect(await resolveParents("/dev/fd/nfs", table, calm)).toBe("/dev/fd/nfs");
  expect(await resolveParents("/dev/fd/other", table, calm)).toMatch(/^\/proc\/[0-9]+\/fd\/other$/);
});

test("usage follows statfs: used excludes reserved blocks, negatives are zero, inodes are omitted without a count, numbers are capped", () => {
  const counts = { bsize: 4096n, blocks: 100n, bfree: 40n, bavail: 30n, files: 10n, ffree: 4n };
  expect(usageOf(counts)).toEqual([
    { unit: "bytes", total: 409600n, available: 122880n, used: 245760n },
    { unit: "inodes", total: 10n, available: 4n, used: 6n },
  ]);
  expect(usageOf({ ...counts, files: 0n })).toHaveLength(1);
  const huge = { ...counts, blocks: 2n ** 64n - 1n, files: 2n ** 64n - 1n, filesFree: 0n };
  expect(usageOf(huge).map(({ total, used }) => [total, used])).toEqual([
    [2n ** 63n - 1n, 2n ** 63n - 1n],
    [2n ** 63n - 1n, 2n ** 63n - 1n],
  ]);
  expect(usageOf({ ...counts, bavail: -1n, bfree: 200n })[0]).toMatchObject({ available: 0n, used: 0n });
});

test.each([
  ["4096 1 2 3 4 5\n", true],
  ["4096 1 2 3 4", false],
  ["4096 1 2 3 4 ?", false],
  ["", false],
])("the output %j of stat is valid: %p", (text, readable) => {
  expect(parseCounts(text) !== undefined).toBe(readable);
});
