import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, readdir, unlink } from "node:fs/promises";
import { protocols } from "../../../lib/core/access.ts";
import { CsiError } from "../../../lib/core/errors.ts";
import type { Attached, Attacher } from "../../../lib/node/attach/attacher.ts";
import type { Disks } from "../../../lib/node/disks/disk-filesystems.ts";
import type { NodeVolumes } from "../../../lib/node/volumes.ts";
import { callOf, codeOf, isRoot, keptLog, Lab, local, mountinfo, writer } from "../lab.ts";
import { changed, Disk, hasLoops } from "./disk.ts";

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

const context = { node_attach_driver: "toy" };
const share: Attached = { kind: "share", fsType: "tmpfs", source: "server:/a", options: ["size=1m"] };

/** A node with attached volumes; `fails` is what attaching throws. */
function nodeOf(what: () => Attached, disks: Disks = lab.disks(local), detaches = true) {
  const state: { fails?: CsiError; detached: number } = { detached: 0 };
  const toy: Attacher = {
    access: { ...protocols.iscsi, filesystems: "any" },
    async attach() {
      if (state.fails) throw state.fails;
      return what();
    },
    grow: async () => 42n,
    ...(detaches && { detach: async () => void state.detached++ }),
  };
  return { node: lab.node(local, mountinfo, { attachers: new Map([["toy", toy]]), disks }), state };
}
const stage = (node: NodeVolumes) => node.stage(lab.stage("a", { context }), callOf());
const unstage = (node: NodeVolumes) => node.unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());
const records = () => readdir(lab.at("records"));

test.skipIf(!isRoot)("no failure is final while the volume is mounted, so that the kubelet unstages it", async () => {
  const { node, state } = nodeOf(() => share);
  await stage(node);
  state.fails = new CsiError("permission-denied", "wrong password");
  expect(await codeOf(stage(node))).toBe("unavailable");
  expect([state.detached, await lab.mounted(), (await records()).length]).toEqual([0, ["staging/a"], 1]);
  await unstage(node);
  expect([state.detached, await lab.mounted(), (await records()).length]).toEqual([1, [], 0]);
  // Nothing is mounted.
  expect(await codeOf(stage(node))).toBe("permission-denied");
});

for (const detaches of [true, false])
  test.skipIf(!hasLoops)(
    `a disk that cannot be grown is staged, and says so until it has grown (its protocol detaches: ${detaches})`,
    async () => {
      using disk = new Disk();
      const failure: { now: CsiError | undefined } = {
        now: new CsiError("failed-precondition", "resize2fs: not found"),
      };
      const grow = async () => (failure.now ? Promise.reject(failure.now) : 64n << 20n);
      const { node, state } = nodeOf(() => disk.device, changed(lab.disks(local), { grow }), detaches);
      const health = async () => (await node.health({ volumeId: "a", path: "" }, callOf())).map(({ reason }) => reason);
      const expand = () => codeOf(node.expand({ volumeId: "a", path: lab.at("staging", "a") }, undefined, callOf()));
      const { log, warnings } = keptLog();
      for (let times = 0; times < 2; times++) await node.stage(lab.stage("a", { context }), callOf(undefined, log));
      expect(warnings).toEqual(Array(2).fill("the file system of a staged volume does not grow"));
      expect([await expand(), await health()]).toEqual(["failed-precondition", ["NotGrown"]]);
      failure.now = undefined;
      expect([await expand(), await health()]).toEqual(["ok", []]);
      // The next call may know more.
      failure.now = new CsiError("unavailable", "the disk does not exist");
      expect(await codeOf(stage(node))).toBe("unavailable");
      expect([state.detached, await lab.mounted(), (await records()).length]).toEqual([0, ["staging/a"], 1]);
      await unstage(node);
      expect([state.detached, await lab.mounted(), (await records()).length]).toEqual([detaches ? 1 : 0, [], 0]);
    },
  );

test.skipIf(!hasLoops)("a disk stays staged where the flags of the node have changed", async () => {
  using disk = new Disk();
  const attacher: Attacher = { access: protocols.iscsi, attach: async () => disk.device };
  const known = new Map([["toy", attacher]]);
  for (const flags of [[], ["noatime", "nosuid"], []]) {
    const node = lab.node(local, mountinfo, { attachers: known, mountFlags: async () => flags });
    expect(await codeOf(stage(node))).toBe("ok");
    expect(await lab.mounted()).toEqual(["staging/a"]);
  }
  await unstage(lab.node(local, mountinfo, { attachers: known }));
});

test.skipIf(!hasLoops)(
  "a disk that was staged without a record, as by democratic-csi, is staged, and no other one is",
  async () => {
    using disk = new Disk();
    using other = new Disk();
    const { node } = nodeOf(() => disk.device);
    await stage(node);
    for (const file of await records()) await unlink(lab.at("records", file));
    expect(await codeOf(stage(nodeOf(() => other.device).node))).toBe("already-exists");
    expect((await records()).length).toBe(0);
    for (let twice = 0; twice < 2; twice++) await stage(node);
    expect(await node.expand({ volumeId: "a", path: lab.at("staging", "a") }, undefined, callOf())).toBe(42n);
    expect(await lab.mounted()).toEqual(["staging/a"]);
    await unstage(node);
    expect([await lab.mounted(), await records()]).toEqual([[], []]);
  },
);

test.skipIf(!hasLoops)("a block volume is grown although the pod is gone that was the last to get it", async () => {
  using disk = new Disk();
  const { node } = nodeOf(() => disk.device);
  const capability = { ...writer, kind: "block" } as const;
  await mkdir(lab.at("pods"));
  const at = (pod: string) => lab.at("pods", pod);
  await node.stage(lab.stage("a", { context, capability }), callOf());
  for (const pod of ["first", "last"])
    await node.publish(lab.publish("a", { context, capability, targetPath: at(pod) }), callOf());
  await node.unpublish({ volumeId: "a", targetPath: at("last") }, callOf());
  const expand = (path: string) => node.expand({ volumeId: "a", path }, 42n, callOf());
  expect(await expand(at("last"))).toBe(42n);
  // Something else is there.
  await lab.source("b");
  await lab.bind(lab.at("base", "b"), at("other"));
  expect(await codeOf(expand(at("other")))).toBe("not-found");
  await node.unpublish({ volumeId: "a", targetPath: at("first") }, callOf());
  await unstage(node);
  expect(await codeOf(expand(at("last")))).toBe("not-found");
});

test.skipIf(!isRoot)("a volume that is staged again keeps its disk, whatever other volumes have by then", async () => {
  const seen: (readonly string[])[] = [];
  const toy: Attacher = {
    access: { ...protocols.iscsi, filesystems: "any" },
    async attach({ others = async () => [] }) {
      seen.push((await others()).map(({ volumeId }) => volumeId));
      return share;
    },
    detach: async () => {},
  };
  const node = lab.node(local, mountinfo, { attachers: new Map([["toy", toy]]) });
  for (const name of ["a", "b", "a"]) await node.stage(lab.stage(name, { context }), callOf());
  expect(seen).toEqual([[], ["a"], []]);
});
