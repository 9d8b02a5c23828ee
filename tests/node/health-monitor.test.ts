import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, rm, unlink, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import type { Finding } from "../../lib/health/finding.ts";
import { shareAttachers } from "../../lib/node/attach/attachers.ts";
import { StorageHealthMonitor, VolumeHealthMonitor } from "../../lib/node/health/monitor.ts";
import { Mounts } from "../../lib/node/mount/mounts.ts";
import type { NodeVolumes } from "../../lib/node/volumes.ts";
import { MountProgram } from "../fakes/mount-program.ts";
import { pause } from "../waiting.ts";
import { Disk, hasLoops, hasProgram, leastFor, sh } from "./disks/disk.ts";
import { callOf, calm, isRoot, keptLog, Lab, local, mountinfo } from "./lab.ts";

let lab: Lab;
let mount: MountProgram;
beforeEach(async () => {
  lab = await Lab.open();
  mount = await MountProgram.at(lab.at("bin"));
});
afterEach(() => lab.close());

const share = (name: string, server = "nas") => ({ node_attach_driver: "nfs", server, share: `/export/v/${name}` });

const stagedA = () => ({ volumeId: "a", stagingPath: lab.at("staging", "a") });

/** A node whose shares are mounted by a program of the test, and its monitors. */
function nodeWithShares(elsewhere: readonly Readonly<Record<string, string>>[] = [], answers = async () => true) {
  const { runner } = mount;
  const known = shareAttachers({ hostMounts: false });
  const node = lab.node(runner, mountinfo, { host: runner, attachers: known });
  const mounts = new Mounts(runner, runner, mountinfo, lab.at("records"));
  const storages = new StorageHealthMonitor(known, answers, 0);
  const monitor = new VolumeHealthMonitor(lab.parts({ mounts, attachers: known }), storages, async () => elsewhere, 0);
  const { log, warnings } = keptLog();
  const recovered: string[] = [];
  const kept = { ...log, info: (text: string) => void recovered.push(text) };
  return { node, monitor, warnings, recovered, check: () => monitor.run(kept, calm) };
}

/** The reasons of the conditions of each volume and each storage system. */
function view(monitor: VolumeHealthMonitor): Readonly<Record<string, readonly string[]>> {
  const { volumes, storages } = monitor.view();
  const reasons = (all: readonly Finding[]) => all.map(({ reason }) => reason);
  return Object.fromEntries([
    ...volumes.map(({ volume, conditions }) => [volume, reasons(conditions)]),
    ...storages.map(({ storage, conditions }) => [storage, reasons(conditions)]),
  ]);
}

test.skipIf(!isRoot)(
  "a share that becomes silent, stale or unmounted is reported once, and so is its recovery",
  async () => {
    const { node, monitor, warnings, recovered, check } = nodeWithShares();
    await node.stage(lab.stage("a", { context: share("a") }), callOf());
    for (const health of ["fine", "stale", "stale", "fine", "silent", "fine"] as const) {
      await mount.health(health);
      await check();
      const expected = { stale: "StaleHandle", silent: "NotAnswering" }[health as string];
      expect(view(monitor)["a"]).toEqual(expected === undefined ? undefined : [expected]);
    }
    expect(warnings).toEqual(Array(2).fill("a volume on this node is inaccessible"));
    expect(recovered).toEqual(Array(2).fill("a volume on this node is no longer inaccessible"));
    await local.run({ argv: ["umount", lab.at("staging", "a")] }, calm);
    await check();
    await check();
    expect(view(monitor)).toEqual({ a: ["NotMounted"] });
    expect(warnings).toHaveLength(3);
    await node.stage(lab.stage("a", { context: share("a") }), callOf());
    await check();
    expect(recovered).toHaveLength(3);
    await node.unstage(stagedA(), callOf());
    await check();
    expect([warnings.length, view(monitor)]).toEqual([3, {}]);
  },
);

test.skipIf(!isRoot)(
  "the record of a volume that this process never saw mounted, as after a reboot, is not a problem",
  async () => {
    const { node, monitor, check } = nodeWithShares();
    await node.stage(lab.stage("a", { context: share("a") }), callOf());
    await local.run({ argv: ["umount", lab.at("staging", "a")] }, calm);
    await check();
    expect(view(monitor)).toEqual({});
    await node.unstage(stagedA(), callOf());
  },
);

test.skipIf(!isRoot)(
  "a storage system is unreachable when none of its volumes answers, and degraded while some do",
  async () => {
    const { node, monitor, check } = nodeWithShares();
    for (const name of ["a", "b"]) await node.stage(lab.stage(name, { context: share(name) }), callOf());
    await mount.health("silent");
    await check();
    expect(view(monitor)["nfs nas"]).toEqual(["StorageUnreachable"]);
    await mount.health("stale");
    await check();
    expect(view(monitor)["nfs nas"]).toEqual(["StorageDegraded"]);
    await mount.health("fine");
    await check();
    expect(view(monitor)).toEqual({});
    for (const name of ["a", "b"])
      await node.unstage({ volumeId: name, stagingPath: lab.at("staging", name) }, callOf());
  },
);

test("a storage system without volumes on this node is probed, but only if a volume elsewhere is on it", async () => {
  let reachable = false;
  const asked: unknown[] = [];
  const answers = async (...[host, port]: readonly unknown[]) => {
    asked.push([host, port]);
    return reachable;
  };
  const { monitor, check } = nodeWithShares(
    [share("x", "far"), share("y", "far"), { node_attach_driver: "hostpath", path: "/v" }],
    answers,
  );
  await check();
  expect(asked).toEqual([["far", 2049]]);
  expect(view(monitor)).toEqual({ "nfs far": ["StorageUnreachable"] });
  reachable = true;
  await check();
  expect(view(monitor)).toEqual({});
});

/** A node with folders of this machine, and its monitors. */
function localNode() {
  const parts = lab.parts();
  const storages = new StorageHealthMonitor(parts.attachers, async () => true, 0);
  const monitor = new VolumeHealthMonitor(parts, storages, async () => [], 0);
  const check = async () => {
    await monitor.run(keptLog().log, calm);
    return view(monitor);
  };
  return { node: lab.node(), check };
}

test.skipIf(!isRoot)("a folder that is removed while mounted is reported until it is unstaged", async () => {
  const { node, check } = localNode();
  const folder = await lab.source("a");
  await node.stage(lab.stage("a"), callOf());
  expect(await check()).toEqual({});
  await rm(folder, { recursive: true });
  expect(await check()).toEqual({ a: ["FolderRemoved"] });
  await node.unstage(stagedA(), callOf());
  expect(await check()).toEqual({});
});

/** The reasons of the conditions that the node reports for volume "a". */
async function health(node: NodeVolumes): Promise<readonly string[]> {
  const found = await node.health({ volumeId: "a", path: "" }, callOf());
  return found.map(({ reason }) => reason);
}

/** Mounts a disk, which is unmounted on disposal, and stages a folder of it as volume "a". Returns the mount point. */
async function stageOn(node: NodeVolumes, disk: Disk, type: string, ...options: readonly string[]): Promise<string> {
  const mounted = disk.mount(type, options);
  const path = join(mounted, "a");
  await mkdir(path, { recursive: true });
  await node.stage(lab.stage("a", { context: { node_attach_driver: "hostpath", path } }), callOf());
  return mounted;
}

test.skipIf(!hasLoops)("errors that ext4 has found are reported until the disk is checked", async () => {
  const { node, check } = localNode();
  using disk = new Disk(32);
  sh('mkfs.ext4 -q "$1"', disk.path);
  await stageOn(node, disk, "ext4", "errors=continue");
  expect(await check()).toEqual({});
  await writeFile(`/sys/fs/ext4/${basename(disk.path)}/trigger_fs_error`, "a test");
  // The kernel counts them with a delay.
  const end = Date.now() + 20_000;
  while (!("a" in (await check())) && Date.now() < end) await pause(20);
  expect(await check()).toEqual({ a: ["FileSystemErrors"] });
  await node.unstage(stagedA(), callOf());
  disk.unmount();
  sh('e2fsck -fy "$1" || [ $? = 1 ]', disk.path);
  await stageOn(node, disk, "ext4");
  expect(await check()).toEqual({});
  await node.unstage(stagedA(), callOf());
});

test.skipIf(!hasLoops || !hasProgram("mkfs.xfs"))(
  "a file system that the kernel has shut down is reported until it is mounted again",
  async () => {
    const node = lab.node();
    using disk = new Disk(leastFor("xfs"));
    sh('mkfs.xfs -q "$1"', disk.path);
    const mounted = await stageOn(node, disk, "xfs");
    expect(await health(node)).toEqual([]);
    sh('xfs_io -x -c shutdown "$1"', mounted);
    expect(await health(node)).toEqual(["FileSystemFailed"]);
    await node.unstage(stagedA(), callOf());
    disk.unmount();
    await stageOn(node, disk, "xfs");
    expect(await health(node)).toEqual([]);
    await node.unstage(stagedA(), callOf());
  },
);

test.skipIf(!hasLoops || !hasProgram("mkfs.btrfs"))(
  "a file system that becomes read-only by itself is reported until it is mounted again",
  async () => {
    const node = lab.node();
    // A disk that cannot store writes: its file is on a full file system.
    const full = lab.at("full");
    sh('mkdir "$1"; mount -t tmpfs -o size=48m csimux-test "$1"', full);
    using disk = new Disk(160, { above: full });
    sh('mkfs.btrfs -q "$1"', disk.path);
    const mounted = await stageOn(node, disk, "btrfs");
    sh('sync -f "$1"', mounted);
    expect(await health(node)).toEqual([]);
    await writeFile(join(full, "filler"), Buffer.alloc(48 << 20)).catch(() => {});
    for (let at = 0; at < 20 && (await health(node)).length === 0; at++) {
      await writeFile(join(mounted, "a", `file-${at}`), Buffer.alloc(8 << 20, at + 1)).catch(() => {});
      await local.run({ argv: ["sync", "-f", mounted] }, calm);
    }
    expect(await health(node)).toEqual(["ReadOnlyFileSystem"]);
    await unlink(join(full, "filler"));
    await node.unstage(stagedA(), callOf());
    disk.unmount();
    await stageOn(node, disk, "btrfs");
    expect(await health(node)).toEqual([]);
    await node.unstage(stagedA(), callOf());
  },
);

test.skipIf(!isRoot)("checks are repeated until they are stopped", async () => {
  const { runner } = mount;
  const warned = Promise.withResolvers<void>();
  const { log } = keptLog();
  const health = { everyMs: 50, holdMs: 0, elsewhere: async () => [] };
  const known = shareAttachers({ hostMounts: false });
  const node = lab.node(runner, mountinfo, { host: runner, attachers: known, health });
  await node.stage(lab.stage("a", { context: share("a") }), callOf());
  await mount.health("stale");
  await node.begin({ ...log, warn: () => warned.resolve() });
  await warned.promise;
  node.end();
  await node.unstage(stagedA(), callOf());
});
