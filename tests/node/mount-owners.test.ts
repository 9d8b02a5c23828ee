import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Mount } from "../../lib/core/mountinfo.ts";
import { MountTable } from "../../lib/node/mount/mount-table.ts";
import { MountOwnership } from "../../lib/node/state/ownership.ts";
import { notYetAttached, type StageRecord, StageRecords } from "../../lib/node/state/stage-records.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "csimux-owner-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const staging = "/var/lib/csimux-test/staging";
const options = { options: [], isShared: false, readOnly: false, isShutDown: false } as const;
const rootMount: Mount = {
  id: 1,
  parent: 1,
  device: "8:1",
  root: "/",
  at: "/",
  fsType: "ext4",
  source: "/dev/sda1",
  ...options,
};
const mounted = (more: Partial<Mount>): MountTable =>
  new MountTable([rootMount, { ...rootMount, id: 2, at: staging, ...more }]);

const record: StageRecord = {
  ...notYetAttached,
  ...{ volumeId: "v:a/one", stagingPath: staging, protocol: "hostpath", context: {}, kind: "mount", flags: [] },
  ...{ fsType: undefined, mode: "SINGLE_NODE_WRITER" },
} as unknown as StageRecord;
const shows = { device: "8:16", root: "/folder" };
const share = { kind: "share", fsType: "nfs", source: "nas:/a" } as const;
const filesystem = { source: "/dev/sdb", number: "8:16", fsType: "xfs" };
const device = { kind: "device", path: "/dev/sdb", number: "8:16", identity: "lun", mounted: filesystem } as const;

// What a call that was interrupted has recorded, what is mounted, and whether it may be unmounted for the volume.
test.each<[string, Partial<StageRecord>, Partial<Mount>, boolean]>([
  ["its folder", { shows }, { device: "8:16", root: "/folder" }, true],
  ["its folder under a new name", { shows }, { device: "8:16", root: "/renamed" }, true],
  ["a folder of another file system", { shows }, { device: "8:17", root: "/folder" }, false],
  ["a folder of which nothing was recorded", {}, { device: "8:16", root: "/folder" }, false],
  ["its share", { attached: share, shows }, { device: "0:50", root: "/", fsType: "nfs4", source: "nas:/a" }, true],
  ["another share", { attached: share, shows }, { device: "0:50", root: "/", fsType: "nfs4", source: "nas:/b" }, false],
  [
    "a share before anything was seen",
    { attached: share },
    { device: "0:50", root: "/", fsType: "nfs4", source: "n:/b" },
    true,
  ],
  ["another kind of share", { attached: share }, { device: "0:50", root: "/", fsType: "cifs", source: "//n/b" }, false],
  [
    "its disk",
    { attached: device, shows: { device: "8:16", root: "/x" } },
    { device: "8:16", source: "/dev/disk" },
    true,
  ],
  ["another disk", { attached: device }, { device: "8:17", source: "/dev/sdb" }, false],
  [
    "a raw disk",
    { attached: { ...device, mounted: undefined } as unknown as typeof device },
    { device: "8:16" },
    false,
  ],
  ["its disk by name (btrfs)", { attached: device }, { device: "0:60", source: "/dev/sdb", fsType: "xfs" }, true],
  ["another disk by name", { attached: device }, { device: "0:60", source: "/dev/sdc", fsType: "xfs" }, false],
])("%s, at the path that a record names", async (_, more, mount, expected) => {
  const ownership = new MountOwnership(new StageRecords(folder), [{ name: "csimux" }]);
  expect(await ownership.owns(record.volumeId, { ...record, ...more }, staging, mounted(mount))).toBe(expected);
});
