import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, stat, unlink } from "node:fs/promises";
import { protocols } from "../../../lib/core/access.ts";
import { CsiError } from "../../../lib/core/errors.ts";
import type { AttachedDevice } from "../../../lib/node/attach/attacher.ts";
import { deviceNumber } from "../../../lib/node/disks/block-device.ts";
import type { Disks } from "../../../lib/node/disks/disk-filesystems.ts";
import type { NodeVolumes } from "../../../lib/node/volumes.ts";
import { callOf, codeOf, Lab, local, mountinfo, writer } from "../lab.ts";
import { Disk, hasLoops, sh } from "./disk.ts";

let lab: Lab;
/** The numbers of disks that count as gone. */
let lost: Set<string>;
/** What the disk behind a device file was made. */
let changed: string[];
beforeEach(async () => {
  lab = await Lab.open();
  changed = [];
  lost = new Set();
});
afterEach(() => lab.close());

const numberAt = async (path: string): Promise<string> => deviceNumber((await stat(path)).rdev);

const disks: Disks = {
  hold: async () => ({ prove: async () => {}, release: async () => {} }),
  prepare: async () => {
    throw new Error("only for block access");
  },
  grow: async () => 64n << 20n,
  async protect(path, isProtected) {
    changed.push(isProtected ? "read-only" : "writable");
    if (lost.has(await numberAt(path))) throw new CsiError("unavailable", "No such device or address");
  },
  isGone: async number => lost.has(number),
  bytes: async () => 64n << 20n,
};

const context = { node_attach_driver: "disk" };
const capability = { ...writer, kind: "block" } as const;

/** A node with volume "a" attached as a device, which can change. */
const nodeOf = (device: () => AttachedDevice): NodeVolumes => {
  const attacher = { access: protocols.iscsi, attach: async () => device() };
  return lab.node(local, mountinfo, { attachers: new Map([["disk", attacher]]), disks });
};
const stage = (node: NodeVolumes) => node.stage(lab.stage("a", { context, capability }), callOf());
const unstage = (node: NodeVolumes) => node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());

test.skipIf(!hasLoops)(
  "a disk for block access that was lost and came back is bound again, also if it has its old name and number",
  async () => {
    using first = new Disk();
    using other = new Disk();
    await mkdir(lab.at("dev"));
    const path = lab.at("dev", "sda");
    const appear = ({ number }: AttachedDevice) => sh('mknod "$1" b "$2" "$3"', path, ...number.split(":"));
    const early: AttachedDevice = { ...first.device, path };
    const late: AttachedDevice = { ...early, number: other.device.number };
    let device = early;
    const node = nodeOf(() => device);
    appear(device);
    await stage(node);
    for (const next of [early, late]) {
      await unlink(path);
      if (next === late) lost.add(early.number);
      device = next;
      appear(device);
      await stage(node);
      expect(await lab.mounted()).toEqual(["staging/a/block_device"]);
      expect(await numberAt(lab.at("staging", "a", "block_device"))).toBe(next.number);
      await stage(node);
    }
    await unstage(node);
    expect(await lab.mounted()).toEqual([]);
  },
);

test.skipIf(!hasLoops)(
  "a disk for block access that was lost is neither published nor made read-only: its number may be another disk's by now",
  async () => {
    using disk = new Disk();
    const path = lab.at("dev", "sda");
    const node = nodeOf(() => ({ ...disk.device, path }));
    const appear = () => sh('mknod "$1" b "$2" "$3"', path, ...disk.device.number.split(":"));
    const publish = (readonly: boolean) =>
      codeOf(node.publish(lab.publish("a", { context, capability, readonly }), callOf()));
    await mkdir(lab.at("dev"));
    await mkdir(lab.at("pods"));
    appear();
    await stage(node);
    await unlink(path);
    // Another disk, which got the name and the number of the lost one.
    appear();
    expect([await publish(true), await publish(false), changed]).toEqual(["unavailable", "unavailable", []]);
    expect(await lab.mounted()).toEqual(["staging/a/block_device"]);
    await stage(node);
    expect([await publish(true), changed]).toEqual(["ok", ["read-only"]]);
    await unlink(path);
    expect(await codeOf(node.unpublish({ volumeId: "a", targetPath: lab.at("pods", "a", "mount") }, callOf()))).toBe(
      "ok",
    );
    expect(changed).toEqual(["read-only"]);
  },
);

test.skipIf(!hasLoops)("a disk for block access that was lost can be unpublished where it was read-only", async () => {
  using disk = new Disk();
  const node = nodeOf(() => disk.device);
  const request = lab.publish("a", { context, capability, readonly: true });
  await mkdir(lab.at("pods"), { recursive: true });
  await stage(node);
  await node.publish(request, callOf());
  lost.add(disk.device.number);
  expect(await codeOf(node.unpublish({ volumeId: "a", targetPath: request.targetPath }, callOf()))).toBe("ok");
  await unstage(node);
  expect(await lab.mounted()).toEqual([]);
});
