import { afterEach, describe, expect, test } from "bun:test";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { callWith, volumeOf } from "../../contract/rig.ts";
import { openZfs, type ZfsRig, zfsRig } from "./zfs-rig.ts";

const call = callWith();
let rig: ZfsRig | undefined;
afterEach(() => rig?.close());

async function begun(): Promise<{ readonly rig: ZfsRig; readonly driver: Driver }> {
  rig = await zfsRig({ driver: "zfs-generic-smb" });
  return { rig, driver: rig.open() };
}

const sharesOf = ({ fake }: ZfsRig): readonly string[] => readdirSync(join(fake.folder, "usershares"));
const unreadable = ({ fake }: ZfsRig, program: "ls" | "net") => writeFileSync(join(fake.folder, `no-${program}`), "");

const missing = async (driver: Driver): Promise<readonly string[]> =>
  [...((await driver.health?.look(call))?.volumes ?? [])].flatMap(([id, all]) =>
    all.map(({ reason }) => `${id} ${reason}`),
  );

describe("zfs share succeeds although Samba has made no usershare", () => {
  test("a new volume is reported as made only when Samba has its usershare", async () => {
    const { rig, driver } = await begun();
    rig.fake.faults({ silentSamba: true });
    for (const _ of [1, 2])
      await expect(driver.create(volumeOf("pvc-A"), call)).rejects.toMatchObject({
        code: "unavailable",
        message: expect.stringContaining("Samba has no usershare tank_k_v_pvc_A"),
      });
    rig.fake.faults({ silentSamba: false });
    await driver.create(volumeOf("pvc-A"), call);
    expect(sharesOf(rig)).toEqual(["tank_k_v_pvc_a"]);
  });

  test("a volume that is requested again, too", async () => {
    const { rig, driver } = await begun();
    await driver.create(volumeOf("pvc-1"), call);
    rig.fake.faults({ silentSamba: true });
    rig.fake.zfs("unmount", "tank/k/v/pvc-1");
    await expect(driver.create(volumeOf("pvc-1"), call)).rejects.toMatchObject({ code: "unavailable" });
    rig.fake.faults({ silentSamba: false });
    await driver.create(volumeOf("pvc-1"), call);
    expect(sharesOf(rig)).toEqual(["tank_k_v_pvc_1"]);
  });

  test("a lost usershare is a finding, and is made again", async () => {
    const { rig, driver } = await begun();
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    await driver.create(volumeOf("pvc-2"), call);
    expect(await missing(driver)).toEqual([]);
    rmSync(join(rig.fake.folder, "usershares", "tank_k_v_pvc_1"));
    expect(await missing(driver)).toEqual([`${id} ShareMissing`]);
    await driver.health?.restore?.(id, call);
    expect(await missing(driver)).toEqual([]);
  });

  test("a share that was turned off is one finding", async () => {
    const { rig, driver } = await begun();
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    rig.fake.zfs("set", "sharesmb=off", "tank/k/v/pvc-1");
    expect(await missing(driver)).toEqual([`${id} ShareMissing`]);
  });

  test("Samba is asked where its folder is another one, and nothing is refused where it does not answer", async () => {
    const { rig, driver } = await begun();
    unreadable(rig, "ls");
    await driver.create(volumeOf("pvc-1"), call);
    rig.fake.faults({ silentSamba: true });
    await expect(driver.create(volumeOf("pvc-2"), call)).rejects.toMatchObject({ code: "unavailable" });
    unreadable(rig, "net");
    await driver.create(volumeOf("pvc-2"), call);
    expect(await missing(driver)).toEqual([]);
    rmSync(join(rig.fake.folder, "no-net"));
    writeFileSync(join(rig.fake.folder, "no-samba"), "");
    await driver.create(volumeOf("pvc-3"), call);
    expect(await missing(driver)).toEqual([]);
  });
});

describe("a volume whose usershare would be that of another one is refused", () => {
  const claim = "pvc-0b6f8a1e-5f0c-4e1d-9a6b-1d2c3e4f5a6b";
  const pairs = [
    ["Data", "data"],
    ["data", "DATA"],
    ["my-data", "My_data"],
    ["a-b-c-d-e-f-g-h", "a_b_c_d_e_f_g_H"],
    [claim.replaceAll("-", "_"), claim],
  ] as const;

  test.each(pairs)("%j and %j", async (first, second) => {
    const { rig, driver } = await begun();
    const made = await driver.create(volumeOf(first), call);
    const shares = sharesOf(rig);
    await expect(driver.create(volumeOf(second), call)).rejects.toMatchObject({
      code: "failed-precondition",
      message: expect.stringContaining(`tank/k/v/${first} has the share name`),
    });
    expect([sharesOf(rig), await rig.remains()]).toEqual([shares, [`tank/k/v/${first}`]]);
    expect(await driver.create(volumeOf(first), call)).toEqual(made);
    await driver.create(volumeOf(`${second}2`), call);
  });

  test("also where both are made at the same time", async () => {
    const { rig, driver } = await begun();
    const both = await Promise.allSettled(["Data", "data"].map(name => driver.create(volumeOf(name), call)));
    expect(both.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    const made = await rig.remains();
    expect(made).toHaveLength(1);
    await expect(driver.create(volumeOf(made[0] === "tank/k/v/data" ? "Data" : "data"), call)).rejects.toMatchObject({
      code: "failed-precondition",
    });
  });

  test("also below another parent of the pool, whose name differs in what no name of a share has", async () => {
    const { rig, driver } = await begun();
    await driver.create(volumeOf("data"), call);
    const zfs = { datasetParentName: "tank/k-v", detachedSnapshotsDatasetParentName: "tank/k-s" };
    const other = openZfs({ driver: "zfs-generic-smb", folder: rig.fake.folder, zfs }, rig.host);
    await expect(other.create(volumeOf("data"), call)).rejects.toMatchObject({
      code: "failed-precondition",
      message: expect.stringContaining("tank/k/v/data has the share name"),
    });
    await other.create(volumeOf("data2"), call);
  });
});
