import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { Capability } from "../../../lib/core/access.ts";
import type { Attacher } from "../../../lib/node/attach/attacher.ts";
import { callOf, codeOf, Lab, local, mountinfo, writer } from "../lab.ts";
import { Disk, hasLoops, hasProgram, leastFor, sh } from "./disk.ts";

// Disks that democratic-csi has staged, and those whose record was lost: kubelet stages them again when it starts, while pods use them.

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

const attacher = (disk: Disk): Attacher => ({
  access: { kinds: ["mount", "block"], filesystems: ["ext4", "xfs"], sharedWriters: false },
  attach: async () => disk.device,
  detach: async () => {},
});

const context = { node_attach_driver: "disk" };
const nodeOf = (disk: Disk) => lab.node(local, mountinfo, { attachers: new Map([["disk", attacher(disk)]]) });
const stagingPath = () => lab.at("plugins/kubernetes.io/csi/driver/x/globalmount");
const targetPath = () => lab.at("pods/1/volumes/kubernetes.io~csi/pv/mount");

/** Mounts a disk as another driver does, with the kubelet's files about it. */
async function mountedByOther(disk: Disk, fsType: string): Promise<void> {
  for (const at of [stagingPath(), targetPath()]) {
    await mkdir(at, { recursive: true });
    await writeFile(`${dirname(at)}/vol_data.json`, JSON.stringify({ volumeHandle: "a", driverName: "csimux" }));
  }
  sh('"mkfs.$1" -q "$2"; mount "$2" "$3"; echo kept > "$3/file"', fsType, disk.path, stagingPath());
}

const stage = (disk: Disk, capability: Capability = writer) =>
  codeOf(nodeOf(disk).stage(lab.stage("a", { context, stagingPath: stagingPath(), capability }), callOf()));
const publish = (disk: Disk) =>
  nodeOf(disk).publish(lab.publish("a", { context, stagingPath: stagingPath(), targetPath: targetPath() }), callOf());

for (const fsType of ["ext4", "xfs"])
  test.skipIf(!hasLoops || !hasProgram(`mkfs.${fsType}`))(
    `${fsType} that democratic-csi has staged is staged again in its place, before and after a pod begins to use it`,
    async () => {
      using disk = new Disk(leastFor(fsType));
      await mountedByOther(disk, fsType);
      expect(await stage(disk, { ...writer, fsType })).toBe("ok");
      await rm(lab.at("records"), { recursive: true });
      await publish(disk);
      for (let twice = 0; twice < 2; twice++) expect(await stage(disk)).toBe("ok");
      expect(await readFile(`${targetPath()}/file`, "utf8")).toBe("kept\n");
      const [file = ""] = await readdir(lab.at("records"));
      const { attached } = JSON.parse(await readFile(lab.at("records", file), "utf8"));
      expect(attached.mounted).toEqual({ source: disk.path, number: disk.device.number, fsType });
      await nodeOf(disk).unpublish({ volumeId: "a", targetPath: targetPath() }, callOf());
      await nodeOf(disk).unstage({ volumeId: "a", stagingPath: stagingPath() }, callOf());
      expect(await lab.mounted()).toEqual([]);
    },
  );

test.skipIf(!hasLoops)("another disk, another file system or a folder of the disk is not taken for it", async () => {
  using disk = new Disk();
  using other = new Disk();
  await mountedByOther(other, "ext4");
  expect(await stage(disk)).toBe("already-exists");
  expect(await stage(other, { ...writer, fsType: "xfs" })).toBe("already-exists");
  expect(await stage(other, { ...writer, mode: "multi-node-reader-only" })).toBe("already-exists");
  sh('mkdir "$1/folder"; mount --bind "$1/folder" "$1"', stagingPath());
  expect(await stage(other)).toBe("already-exists");
  expect(await lab.mounted()).toHaveLength(2);
  expect(existsSync(lab.at("records")) ? await readdir(lab.at("records")) : []).toEqual([]);
});
