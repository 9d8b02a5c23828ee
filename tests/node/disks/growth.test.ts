import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { CsiError } from "../../../lib/core/errors.ts";
import { mkfsOptionsKey } from "../../../lib/core/mkfs-options.ts";
import type { Attacher } from "../../../lib/node/attach/attacher.ts";
import type { StageRequest } from "../../../lib/node/requests.ts";
import { callOf, Lab, local, mountinfo, writer } from "../lab.ts";
import { Disk, hasLoops, hasProgram, leastFor, nodesOf, sh, unused } from "./disk.ts";

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

const context = { node_attach_driver: "disk" };
const mebibytes = (bytes: bigint | undefined) => bytes && Number(bytes >> 20n);

/** What the kubelet does with volume "a"; each answers what the call does, or the code and the message. */
function useOf(disk: Disk, fsType: string, mountFlags: readonly string[] = []) {
  const attacher: Attacher = {
    access: { kinds: ["mount"], filesystems: [fsType], sharedWriters: false },
    attach: async () => disk.device,
    grow: async () => BigInt(sh('blockdev --getsize64 "$1"', disk.path)),
  };
  const node = lab.node(local, mountinfo, { attachers: new Map([["disk", attacher]]) });
  const capability = { ...writer, fsType, mountFlags };
  const answer = <T>(work: Promise<T>): Promise<T | string> =>
    work.catch((error: unknown) =>
      error instanceof CsiError ? `${error.code}: ${error.message}` : Promise.reject(error),
    );
  const path = lab.at("staging", "a");
  return {
    path,
    stage: (more: Partial<StageRequest> = {}) =>
      answer(node.stage(lab.stage("a", { context, capability, ...more }), callOf())),
    publish: (readonly = false) => answer(node.publish(lab.publish("a", { context, capability, readonly }), callOf())),
    unpublish: () => answer(node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf())),
    unstage: () => answer(node.unstage({ volumeId: "a", stagingPath: path }, callOf())),
    expand: (least: number, at = path) =>
      answer(node.expand({ volumeId: "a", path: at }, BigInt(least) << 20n, callOf()).then(mebibytes)),
    size: async () => mebibytes((await node.stats({ volumeId: "a", path }, callOf())).usage[0]?.total) ?? 0,
  };
}

const superblock = (disk: Disk, key: string): string =>
  new RegExp(`^${key}: *(.*)$`, "m").exec(sh('dumpe2fs -h "$1" 2>/dev/null', disk.path))?.[1] ?? "";

describe.skipIf(!hasLoops)("ext4", () => {
  test("accepts no more writes after an error, unless the class says otherwise", async () => {
    for (const [mkfsOptions, behavior] of [
      [undefined, "Remount read-only"],
      ["-e continue", "Continue"],
    ] as const) {
      using disk = new Disk();
      const { stage, unstage } = useOf(disk, "ext4");
      const own = mkfsOptions === undefined ? context : { ...context, [mkfsOptionsKey]: mkfsOptions };
      await stage({ context: own });
      expect(superblock(disk, "Errors behavior")).toBe(behavior);
      await unstage();
    }
  });

  test("with recorded errors is published and not grown, and is checked by the next staging", async () => {
    using disk = new Disk();
    sh('mkfs.ext4 -q -e continue "$1"', disk.path);
    const { stage, publish, unpublish, unstage, expand } = useOf(disk, "ext4");
    await stage();
    await writeFile(`/sys/fs/ext4/${basename(disk.path)}/trigger_fs_error`, "a test");
    disk.grow(96);
    expect([await stage(), await publish()]).toEqual([undefined, undefined]);
    expect(await expand(96)).toMatch(
      /^failed-precondition: ext4 on \S+ has recorded errors, so the kernel does not grow it: end all pods that use it/,
    );
    await unpublish();
    await unstage();
    expect(superblock(disk, "Filesystem state")).toBe("clean with errors");
    expect(await unused(stage)).toBe(undefined);
    expect(superblock(disk, "Filesystem state")).toBe("clean");
  });
});

describe.skipIf(!hasLoops)("a disk that a class mounts with ro", () => {
  test("is neither formatted nor checked", async () => {
    using disk = new Disk();
    const { stage, unstage } = useOf(disk, "ext4", ["ro"]);
    const before = disk.hash();
    expect(await stage()).toMatch(/^failed-precondition: .* a read-only volume is not formatted/);
    expect(disk.hash()).toBe(before);
    sh('mkfs.ext4 -q "$1"; debugfs -w -R "set_super_value state 3" "$1" 2>/dev/null', disk.path);
    const damaged = disk.hash();
    expect([await stage(), await unstage(), disk.hash()]).toEqual([undefined, undefined, damaged]);
  });

  test.skipIf(!hasProgram("mkfs.xfs"))("is not grown", async () => {
    const least = leastFor("xfs");
    using disk = new Disk(least);
    sh('mkfs.xfs -q "$1"', disk.path);
    disk.grow(2 * least);
    const { stage, size, expand } = useOf(disk, "xfs", ["ro"]);
    expect([await stage(), await expand(2 * least)]).toEqual([undefined, 2 * least]);
    expect(await size()).toBeLessThan(least);
  });
});

test.skipIf(!hasLoops || !hasProgram("mkfs.xfs"))("a file system is grown although the pod may only read", async () => {
  const least = leastFor("xfs");
  using disk = new Disk(least);
  const { stage, publish, size, expand } = useOf(disk, "xfs");
  expect([await stage(), await publish(true)]).toEqual([undefined, undefined]);
  disk.grow(2 * least);
  expect(await expand(2 * least, lab.at("pods", "a", "mount"))).toBe(2 * least);
  expect(await size()).toBeGreaterThan(1.5 * least);
});

describe.skipIf(!hasLoops)("no capacity is reported that pods do not have", () => {
  test.skipIf(!hasProgram("mkfs.btrfs"))("because btrfs stays small", async () => {
    using disk = new Disk(128);
    const { stage, expand } = useOf(disk, "btrfs");
    await stage();
    expect(await expand(128)).toBe(128);
    disk.grow(192);
    expect(await expand(192)).toMatch(/^failed-precondition: .* has 134217728 of 201326592 bytes/);
  });

  test.skipIf(!hasProgram("sfdisk") || !hasProgram("mkfs.xfs"))("because a partition ends before", async () => {
    const least = leastFor("xfs");
    using disk = new Disk(least + 2, { partitions: true });
    sh('echo "size=$2M" | sfdisk -q --label dos "$1" 2>&1; partx -u "$1" || partx -a "$1"', disk.path, `${least}`);
    using _ = nodesOf(disk.path, 1);
    sh('mkfs.xfs -q "$1p1"', disk.path);
    const { stage, unstage, expand } = useOf(disk, "xfs");
    await stage();
    expect(await expand(least + 2)).toBe(least);
    disk.grow(2 * least);
    expect(await expand(2 * least)).toMatch(/^failed-precondition: .* csimux grows neither partitions/);
    await unstage();
  });
});
