import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { CsiError } from "../../../lib/core/errors.ts";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import type { Attacher } from "../../../lib/node/attach/attacher.ts";
import { callOf, codeOf, Lab, local, mountinfo, spying, writer } from "../lab.ts";
import { Disk, endsAsArray, hasLoops, hasProgram, leastFor, mayResize, sh } from "./disk.ts";

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

/** Attaches existing disks. */
const attacher = (disk: Disk): Attacher => ({
  access: { kinds: ["mount", "block"], filesystems: ["ext4", "xfs", "btrfs"], sharedWriters: false },
  attach: async () => disk.device,
  grow: async () => BigInt(sh('blockdev --getsize64 "$1"', disk.path)),
});

const context = { node_attach_driver: "disk" };
const nodeOf = (disk: Disk) => lab.node(local, mountinfo, { attachers: new Map([["disk", attacher(disk)]]) });

for (const fsType of ["ext4", "xfs", "btrfs"]) {
  test.skipIf(!hasLoops || !hasProgram(`mkfs.${fsType}`))(
    `${fsType} is staged, published, kept, grown and gone again`,
    async () => {
      using disk = new Disk(leastFor(fsType));
      const node = nodeOf(disk);
      const capability = { ...writer, fsType };
      const target = lab.at("pods", "a", "mount");
      await mkdir(lab.at("pods", "a"), { recursive: true });
      for (const round of ["first", "second"]) {
        for (let twice = 0; twice < 2; twice++) await node.stage(lab.stage("a", { context, capability }), callOf());
        for (let twice = 0; twice < 2; twice++) await node.publish(lab.publish("a", { context, capability }), callOf());
        if (round === "second") expect(await readFile(`${target}/file`, "utf8")).toBe("kept");
        await writeFile(`${target}/file`, "kept");
        if (mayResize || fsType !== "ext4") {
          const [before] = (await node.stats({ volumeId: "a", path: target }, callOf())).usage;
          disk.grow(
            Number((await node.stats({ volumeId: "a", path: target }, callOf())).usage[0]?.total ?? 0n) / 2 ** 19 + 64,
          );
          await node.expand({ volumeId: "a", path: target }, undefined, callOf());
          const [after] = (await node.stats({ volumeId: "a", path: target }, callOf())).usage;
          expect(after?.total ?? 0n).toBeGreaterThan(before?.total ?? 0n);
        }
        await node.unpublish({ volumeId: "a", targetPath: target }, callOf());
        await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
        expect(await lab.mounted()).toEqual([]);
      }
      expect(readdirSync(lab.at("formats"))).toEqual([]);
    },
  );
}

test.skipIf(!hasLoops)(
  "a disk with foreign data is refused by every retry, and nothing of the staging is left",
  async () => {
    using disk = new Disk();
    sh('mkswap "$1"', disk.path);
    const before = disk.hash();
    const node = nodeOf(disk);
    for (let times = 0; times < 3; times++) {
      expect(await codeOf(node.stage(lab.stage("a", { context }), callOf()))).toBe("failed-precondition");
    }
    expect(await lab.mounted()).toEqual([]);
    expect(existsSync(lab.at("records"))).toBe(false);
    expect(disk.hash()).toBe(before);
  },
);

const block = { ...writer, kind: "block" } as const;
const writes = (path: string) =>
  sh('printf x | dd of="$1" bs=512 conv=sync,notrunc,nocreat oflag=direct status=none', path);
const publishing = (at: string, readonly: boolean) =>
  ({ ...lab.publish("a", { context, capability: block }), targetPath: lab.at("pods", at), readonly }) as const;

test.skipIf(!hasLoops)("a block device published read-only refuses all writes until it is unpublished", async () => {
  using disk = new Disk();
  const node = nodeOf(disk);
  await mkdir(lab.at("pods"), { recursive: true });
  await node.stage(lab.stage("a", { context, capability: block }), callOf());
  for (let twice = 0; twice < 2; twice++) await node.publish(publishing("one", true), callOf());
  expect(() => writes(lab.at("pods", "one"))).toThrow();
  expect(await codeOf(node.publish(publishing("two", false), callOf()))).toBe("failed-precondition");
  await node.publish(publishing("three", true), callOf());
  await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "one") }, callOf());
  expect(() => writes(lab.at("pods", "three"))).toThrow();
  await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "three") }, callOf());

  await node.publish(publishing("two", false), callOf());
  writes(lab.at("pods", "two"));
  expect(await codeOf(node.publish(publishing("one", true), callOf()))).toBe("failed-precondition");
  expect((await node.stats({ volumeId: "a", path: lab.at("pods", "two") }, callOf())).usage).toMatchObject([
    { total: 64n << 20n },
  ]);
  disk.grow(96);
  expect(await node.expand({ volumeId: "a", path: lab.at("pods", "two") }, 96n << 20n, callOf())).toBe(96n << 20n);
  await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "two") }, callOf());
  await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
  expect(await lab.mounted()).toEqual([]);
});

test.skipIf(!hasLoops)("a refused read-only publication leaves the disk writable", async () => {
  using disk = new Disk();
  const node = nodeOf(disk);
  await mkdir(lab.at("pods"), { recursive: true });
  await node.stage(lab.stage("a", { context, capability: block }), callOf());
  await writeFile(lab.at("pods", "one"), "in the way");
  expect(await codeOf(node.publish(publishing("one", true), callOf()))).toBe("failed-precondition");
  await node.publish(publishing("two", false), callOf());
  writes(lab.at("pods", "two"));
});

test.skipIf(!hasLoops)("a block volume is writable although a read-only publication was cut off before", async () => {
  using disk = new Disk();
  const attachers = new Map([["disk", attacher(disk)]]);
  const cutting = spying(async ({ argv }) => {
    if (argv[0] === "mount" && argv.at(-1) === lab.at("pods", "one")) throw new CsiError("unavailable", "cut off");
  });
  await mkdir(lab.at("pods"), { recursive: true });
  const node = nodeOf(disk);
  await node.stage(lab.stage("a", { context, capability: block }), callOf());
  const early = lab.node(cutting, mountinfo, { attachers }).publish(publishing("one", true), callOf());
  expect(await codeOf(early)).toBe("unavailable");
  await node.publish(publishing("two", false), callOf());
  writes(lab.at("pods", "two"));
  await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "one") }, callOf());
  writes(lab.at("pods", "two"));
});

for (const [fsType, answer] of [
  ["xfs", "ok"],
  ["btrfs", "failed-precondition"],
] as const)
  test.skipIf(!hasLoops || !hasProgram(`mkfs.${fsType}`))(
    `${fsType} whose record was lost is grown if the mount table tells its disk, and otherwise not reported as grown`,
    async () => {
      const least = leastFor(fsType);
      using disk = new Disk(least);
      const node = nodeOf(disk);
      const stagingPath = lab.at("plugins/kubernetes.io/csi/driver/x/globalmount");
      const targetPath = lab.at("pods/1/volumes/kubernetes.io~csi/pv/mount");
      await node.stage(lab.stage("a", { context, stagingPath, capability: { ...writer, fsType } }), callOf());
      await mkdir(dirname(targetPath), { recursive: true });
      for (const at of [stagingPath, targetPath])
        await writeFile(`${dirname(at)}/vol_data.json`, JSON.stringify({ volumeHandle: "a", driverName: "csimux" }));
      await rm(lab.at("records"), { recursive: true });
      await node.publish(lab.publish("a", { context, stagingPath, targetPath }), callOf());
      disk.grow(2 * least);
      const size = async () => (await node.stats({ volumeId: "a", path: targetPath }, callOf())).usage[0]?.total ?? 0n;
      const before = await size();
      const grown = await codeOf(node.expand({ volumeId: "a", path: targetPath }, BigInt(2 * least) << 20n, callOf()));
      expect([grown, (await size()) > before]).toEqual([answer, answer === "ok"]);
    },
  );

test.skipIf(!hasLoops)(
  "a block device with a read-only mode refuses writes, and accepts them after it is unpublished",
  async () => {
    using disk = new Disk();
    const node = nodeOf(disk);
    await mkdir(lab.at("pods"), { recursive: true });
    const capability = { ...block, mode: "multi-node-reader-only" } as const;
    const before = disk.hash();
    await node.stage(lab.stage("a", { context, capability }), callOf());
    await node.publish({ ...publishing("one", false), capability }, callOf());
    expect(() => writes(lab.at("pods", "one"))).toThrow();
    await node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "one") }, callOf());
    await node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
    expect(disk.hash()).toBe(before);
    writes(disk.path);
  },
);

test.skipIf(!hasLoops || !hasProgram("mkfs.btrfs"))(
  "a copy of a mounted btrfs is refused with advice, and nothing of it is left",
  async () => {
    using disk = new Disk(leastFor("btrfs"));
    sh('mkfs.btrfs -q "$1"', disk.path);
    // The message of mount(8) of util-linux 2.38 for EEXIST, which kernels up to 6.6 return.
    const olderKernel: CommandRunner = {
      where: "local",
      run: async (command, signal) =>
        command.argv[0] === "mount"
          ? { stdout: "", stderr: "mount: /x: mount(2) system call failed: File exists.\n", exitCode: 32 }
          : await local.run(command, signal),
    };
    const node = lab.node(olderKernel, mountinfo, { attachers: new Map([["disk", attacher(disk)]]) });
    const staging = node.stage(lab.stage("a", { context }), callOf());
    await expect(staging).rejects.toMatchObject({
      code: "failed-precondition",
      message: expect.stringContaining("another disk with the same btrfs id"),
    });
    expect(await lab.mounted()).toEqual([]);
    expect(existsSync(lab.at("records")) ? readdirSync(lab.at("records")) : []).toEqual([]);
  },
);

test.skipIf(!hasLoops)(
  "a disk with a file system that csimux does not support is refused without advice to request it",
  async () => {
    using disk = new Disk();
    for (let at = 131_072; at < 262_144; at += 1024)
      sh(
        'printf "\\x0c\\xb1\\xba\\0\\0\\0\\0\\0" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none',
        disk.path,
        `${at}`,
      );
    const asked = disk.filesystems().prepare(disk.device, disk.wanted({ fsType: "ext4" }), callOf());
    const error = await asked.catch((cause: Error) => cause);
    const message = "message" in error ? error.message : "";
    expect(message).toContain("holds zfs_member, which csimux does not support");
    expect(message).not.toContain("request ");
  },
);

test.skipIf(!hasLoops || !hasProgram("mkfs.xfs"))(
  "a disk whose class names no file system is mounted as what it was before the node started again",
  async () => {
    using disk = new Disk(leastFor("xfs"));
    sh('mkfs.xfs -q "$1"', disk.path);
    await nodeOf(disk).stage(lab.stage("a", { context }), callOf());
    sh('umount "$1"', lab.at("staging", "a"));
    sh(endsAsArray, disk.path);
    await nodeOf(disk).stage(lab.stage("a", { context }), callOf());
    expect((await lab.mounts()).map(({ fsType }) => fsType)).toEqual(["xfs"]);
  },
);

/** Overwrites blocks of a disk with zeros: how many, and the first. */
const damage = (disk: Disk, size: string, count: number, first: number) =>
  sh(
    'dd if=/dev/zero of="$1" bs="$2" count="$3" seek="$4" conv=notrunc 2>&1; blockdev --flushbufs "$1"',
    ...[disk.path, size, `${count}`, `${first}`],
  );

const damages: readonly (readonly [type: string, what: string, tool: string, damage: (disk: Disk) => unknown])[] = [
  ["ext4", "damaged", "e2fsck", disk => damage(disk, "1K", 31, 2)],
  ["xfs", "damaged", "xfs_repair", disk => damage(disk, "512", 3, 1)],
  // All but the superblock at 64 KiB.
  ["btrfs", "damaged", "btrfs check", disk => damage(disk, "1M", 62, 1)],
  ["ext4", "larger than its disk", "e2fsck", disk => disk.grow(leastFor("ext4") - 1)],
  ["xfs", "larger than its disk", "xfs_repair", disk => disk.grow(leastFor("xfs") - 1)],
];

for (const [fsType, what, tool, harm] of damages)
  test.skipIf(!hasLoops || !hasProgram(`mkfs.${fsType}`))(
    `${fsType} that is ${what} is refused for good, with the tool that repairs it`,
    async () => {
      using disk = new Disk(leastFor(fsType));
      sh('mkfs."$2" -q "$1"', disk.path, fsType);
      harm(disk);
      const stage = nodeOf(disk).stage(lab.stage("a", { context, capability: { ...writer, fsType } }), callOf());
      await expect(stage).rejects.toMatchObject({
        code: "failed-precondition",
        message: expect.stringMatching(new RegExp(`${what}.* with ${tool} while no pod uses it$`)),
      });
      expect(await lab.mounted()).toEqual([]);
    },
  );

test.skipIf(!hasLoops)("an unknown mount option is refused with the names of all, without their values", async () => {
  using disk = new Disk();
  const capability = { ...writer, mountFlags: ["discard,odd=word"] };
  const stage = nodeOf(disk).stage(lab.stage("a", { context, capability }), callOf());
  await expect(stage).rejects.toMatchObject({
    code: "failed-precondition",
    message: expect.stringMatching(/; its options: discard,odd$/),
  });
});
