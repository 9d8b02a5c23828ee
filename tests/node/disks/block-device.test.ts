import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BlockDevices } from "../../../lib/node/disks/block-device.ts";
import { codeOf } from "../lab.ts";

/** A /sys of files. */
let sys: string;
beforeEach(async () => {
  sys = await mkdtemp(join(tmpdir(), "csimux-sys-"));
});
afterEach(() => rm(sys, { recursive: true }));

/** A disk with these partitions and other folders, as the kernel shows them below the disk's folder. */
async function withDisk(name: string, partitions: Readonly<Record<string, number>>) {
  const folder = join(sys, "dev/block/8:0");
  for (const [part, number] of Object.entries(partitions)) {
    await mkdir(join(folder, part), { recursive: true });
    await writeFile(join(folder, part, "partition"), `${number}\n`);
  }
  for (const other of ["queue", "holders", "power"]) await mkdir(join(folder, other), { recursive: true });
  return { path: `/dev/${name}`, name, number: "8:0", bytes: 1n << 30n, identity: "" };
}

const numbers = Array.from({ length: 12 }, (_, index) => index + 1);

describe("partitions", () => {
  test.each([
    ["sda", "sda"],
    ["vdaa", "vdaa"],
    ["nvme0n1", "nvme0n1p"],
    ["loop7", "loop7p"],
    ["mmcblk0", "mmcblk0p"],
  ])("of %s are listed in the order of their numbers, ten after nine", async (name, prefix) => {
    const disk = await withDisk(name, Object.fromEntries(numbers.map(number => [`${prefix}${number}`, number])));
    expect(await new BlockDevices(sys).partitions(disk)).toEqual(numbers.map(number => `/dev/${prefix}${number}`));
  });

  test("have the kernel's numbers, whatever their names end with", async () => {
    const disk = await withDisk("nvme10n12", { nvme10n12p3: 3, nvme10n12p20: 20, nvme10n12p100: 100 });
    expect((await new BlockDevices(sys).partitions(disk)).at(-1)).toBe("/dev/nvme10n12p100");
  });
});

describe("a disk", () => {
  test("exists if the kernel shows it, and is gone if it shows only others", async () => {
    await withDisk("sda", {});
    const devices = new BlockDevices(sys);
    expect(await devices.has("8:0")).toBe(true);
    expect(await devices.has("8:16")).toBe(false);
    await symlink("../../devices/removed", join(sys, "dev/block/8:32"));
    expect(await devices.has("8:32")).toBe(false);
  });

  test.each([
    ["there is no /sys", async () => {}],
    ["/sys is not what it should be", () => writeFile(join(sys, "dev"), "")],
    [
      "checking it fails",
      async () => {
        await mkdir(join(sys, "dev/block"), { recursive: true });
        await symlink("8:0", join(sys, "dev/block/8:0"));
      },
    ],
  ])("does not count as gone when %s", async (_, prepare) => {
    await prepare();
    expect(await codeOf(new BlockDevices(sys).has("8:0"))).toBe("unavailable");
  });
});
