import { afterEach, beforeEach, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { truncateSync } from "node:fs";
import type { CommandRunner } from "../../../lib/io/runner.ts";
import type { AttachedDevice, Attacher } from "../../../lib/node/attach/attacher.ts";
import { callOf, codeOf, Lab, local, mountinfo, spying, writer } from "../lab.ts";
import { Disk, hasLoops, sh } from "./disk.ts";

let lab: Lab;
beforeEach(async () => {
  lab = await Lab.open();
});
afterEach(() => lab.close());

const context = { node_attach_driver: "disk" };

/** A node with volume "a" attached as this device, by the name that it had when it was proved. */
const nodeOf = (device: AttachedDevice, runner: CommandRunner = local) => {
  const attacher: Attacher = {
    access: { kinds: ["mount", "block"], filesystems: ["ext4"], sharedWriters: false },
    attach: async () => device,
  };
  return lab.node(runner, mountinfo, { attachers: new Map([["disk", attacher]]) });
};

const staging = (device: AttachedDevice, kind: "mount" | "block", runner?: CommandRunner) =>
  nodeOf(device, runner).stage(lab.stage("a", { context, capability: { ...writer, kind } }), callOf());
const stage = (...words: Parameters<typeof staging>) => codeOf(staging(...words));
const unstage = (device: AttachedDevice) =>
  nodeOf(device).unstage({ volumeId: "a", stagingPath: lab.at("staging", "a") }, callOf());

/** Removes the disk and gives its name and number to another disk. False if the kernel refuses. */
function replace(disk: Disk, other: Disk): boolean {
  spawnSync("losetup", ["-d", disk.path]);
  return spawnSync("losetup", [disk.path, other.file]).status === 0;
}

for (const kind of ["mount", "block"] as const) {
  test.skipIf(!hasLoops)(`a disk that took the attached one's name is not touched (${kind})`, async () => {
    using disk = new Disk();
    using other = new Disk();
    const device = disk.device;
    const before = other.hash();
    expect(replace(disk, other)).toBe(true);
    expect(disk.device.number).toBe(device.number);
    expect(await stage(device, kind)).toBe("unavailable");
    expect(other.hash()).toBe(before);
    expect(await lab.mounted()).toEqual([]);
  });
}

test.skipIf(!hasLoops)(
  "a disk is not replaced by another one at any step of its staging",
  async () => {
    using counted = new Disk();
    const spy = spying();
    expect(await stage(counted.device, "mount", spy)).toBe("ok");
    await unstage(counted.device);
    expect(spy.ran.length).toBeGreaterThan(10);
    for (let step = 1; step <= spy.ran.length; step++) {
      using disk = new Disk();
      using other = new Disk();
      const device = disk.device;
      const before = other.hash();
      let replaced = false;
      const runner = spying((_, count) => {
        if (count === step) replaced = replace(disk, other);
        return undefined;
      });
      const outcome = await staging(device, "mount", runner).then(
        () => "ok",
        (error: Error) => error.message,
      );
      expect([step, replaced, outcome]).toEqual([step, false, "ok"]);
      expect((await lab.mounts()).map(mount => mount.device)).toEqual([device.number]);
      await unstage(device);
      expect(other.hash()).toBe(before);
    }
  },
  120_000,
);

test.skipIf(!hasLoops)("a mount of another disk than the attached one is undone", async () => {
  using disk = new Disk();
  using other = new Disk();
  sh('mkfs.ext4 -q "$1"', other.path);
  const astray: CommandRunner = {
    where: "local",
    run: ({ argv, ...command }, signal) => {
      const [program, ...words] = argv;
      const wrong = program === "mount" ? words.map(word => (word === disk.path ? other.path : word)) : words;
      return local.run({ ...command, argv: [program, ...wrong] }, signal);
    },
  };
  for (const kind of ["mount", "block"] as const) {
    expect([kind, await stage(disk.device, kind, astray)]).toEqual([kind, "unavailable"]);
    expect(await lab.mounted()).toEqual([]);
    await unstage(disk.device);
  }
});

test.skipIf(!hasLoops)("a file system is not grown on a disk that took the mounted one's name", async () => {
  using disk = new Disk();
  using other = new Disk();
  sh('mkfs.ext4 -q "$1"', other.path);
  truncateSync(other.file, 128 << 20);
  sh('losetup -c "$1"', other.path);
  const before = other.hash();
  const mounted = { source: other.path, number: disk.device.number, fsType: "ext4" };
  expect(await codeOf(disk.filesystems().grow(mounted, lab.at("at"), callOf()))).toBe("unavailable");
  expect(other.hash()).toBe(before);
});
