import { expect, test } from "bun:test";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { codeOf } from "../../../contract/driver-volumes.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, volumeOf } from "../../../contract/rig.ts";
import { type ZfsRig, zfsRig } from "../zfs-rig.ts";

const call = callWith();
const opened = perTest(zfsRig);
const at = ({ fake }: ZfsRig, ...parts: readonly string[]): string => join(fake.folder, ...parts);

test.each([
  ["zfs-generic-iscsi", "LIO"],
  ["zfs-generic-nvmeof", "the kernel"],
  ["zfs-generic-nvmeof", "SPDK"],
])(
  "%s by %s serves no other zvol to which udev has left the link of an earlier one, and has udev look again",
  async (driver, by) => {
    const rig = await opened({ driver, spdk: by === "SPDK" });
    const disk = at(rig, "blocks", "zd0");
    mkdirSync(disk, { recursive: true });
    writeFileSync(join(disk, "dev"), "230:0\n");
    writeFileSync(join(disk, "uevent"), "");
    mkdirSync(at(rig, "udev"));
    writeFileSync(at(rig, "udev/b230:0"), "");
    // The kernel has given the number of an earlier zvol "a" to "other", which udev has not heard.
    mkdirSync(at(rig, "dev/tank/k/v"), { recursive: true });
    symlinkSync(at(rig, "dev/zd0"), at(rig, "dev/tank/k/v/a"));
    mkdirSync(at(rig, "zvols"));
    writeFileSync(at(rig, "zvols/zd0"), "tank/k/v/other");
    const opening = rig.open();
    expect(await codeOf(opening.create(volumeOf("a"), call))).toBe("unavailable");
    expect(readFileSync(join(disk, "uevent"), "utf8")).toBe("change");
    writeFileSync(at(rig, "zvols/zd0"), "tank/k/v/a");
    expect(await codeOf(opening.create(volumeOf("a"), call))).toBe("ok");
  },
);
