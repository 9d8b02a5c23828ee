import { afterAll, beforeAll, expect, test } from "bun:test";
import { statSync } from "node:fs";
import { deviceNumber } from "../../lib/node/disks/block-device.ts";
import { Disk, sh } from "../node/disks/disk.ts";
import { callOf, codeOf } from "../node/lab.ts";
import { leftSince, traces } from "./traces.ts";

const limitMs = 300_000;

let before: ReadonlySet<string>;
beforeAll(async () => {
  before = await traces();
});
afterAll(async () => {
  expect(await leftSince(before)).toEqual([]);
});

/** A device-mapper table over a disk of 64 MiB (dmsetup(8)); sectors of 512 bytes, the last MiB begins at 129024. */
const tables: Readonly<Record<string, string>> = {
  "whose first MiB cannot be read": "0 2048 error\n2048 129024 linear $1 2048",
  "whose last MiB cannot be read": "0 129024 linear $1 0\n129024 2048 error",
  "that cannot be read at all": "0 131072 error",
  "that is failing now": "0 131072 flakey $1 0 0 60",
};

for (const [what, table] of Object.entries(tables)) {
  test(
    `an empty disk ${what} is not formatted`,
    async () => {
      using disk = new Disk();
      const hash = disk.hash();
      sh(`printf '${table}\\n' "$1" | sed "s#\\$1#$1#" | dmsetup create csimux-never`, disk.path);
      try {
        const path = "/dev/mapper/csimux-never";
        const { rdev } = statSync(path);
        const device = { kind: "device" as const, path, number: deviceNumber(rdev), identity: "never", proof: {} };
        const outcome = await codeOf(disk.filesystems().prepare(device, disk.wanted(), callOf()));
        expect(outcome).toBe("unavailable");
      } finally {
        sh("udevadm settle; dmsetup remove --retry csimux-never");
      }
      expect(disk.hash()).toBe(hash);
    },
    limitMs,
  );
}

/** Real members of arrays and volume groups. */
const members: Readonly<Record<string, string>> = {
  "an exported ZFS pool": 'zpool create -f csimuxnever "$1" && zpool export csimuxnever',
};

for (const [what, script] of Object.entries(members)) {
  test(
    `a disk of ${what} is not formatted`,
    async () => {
      using disk = new Disk(128);
      sh(script, disk.path);
      const hash = disk.hash();
      for (const fsType of ["ext4", "xfs", undefined]) {
        const refused = disk.filesystems().prepare(disk.device, disk.wanted({ fsType }), callOf());
        expect(await codeOf(refused)).toBe("failed-precondition");
      }
      expect(disk.hash()).toBe(hash);
    },
    limitMs,
  );
}
