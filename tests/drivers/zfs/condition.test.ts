import { afterEach, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { exportedIn } from "../../../lib/drivers/zfs/cli/nfs.ts";
import { callWith, reasonsOf, volumeOf } from "../../contract/rig.ts";
import type { Pools } from "../../fakes/zfs/pool.ts";
import { type ZfsRig, zfsRig } from "./zfs-rig.ts";

const call = callWith();
let rig: ZfsRig | undefined;
afterEach(() => rig?.close());

async function begun(driver: string, strategy = {}): Promise<{ readonly rig: ZfsRig; readonly driver: Driver }> {
  rig = await zfsRig({ driver, strategy });
  return { rig, driver: rig.open() };
}

/** Each cause that the model can have, and what it is called. */
const causes: readonly (readonly [string, string, (pools: Pools) => void, (pools: Pools) => void])[] = [
  ["a key that is not loaded", "KeyNotLoaded", set({ locked: true }), set({ locked: false })],
  ["a dataset that is not mounted", "DatasetNotMounted", set({ mounted: false }), set({ mounted: true })],
  ["a share that was turned off", "ShareMissing", own("sharenfs", "off"), own("sharenfs", "rw")],
  ["a quota that is used up", "QuotaFull", own("refquota", "1"), own("refquota", "1073741824")],
];

const dataset = "tank/k/v/pvc-1";

function thing(pools: Pools) {
  const found = pools.find(dataset);
  if (!found) throw new Error(`there is no ${dataset}`);
  return found;
}

function set(values: object) {
  return (pools: Pools): void => void Object.assign(thing(pools), values);
}

function own(property: string, value: string) {
  return (pools: Pools): void => {
    thing(pools).own[property] = { value, source: "local" };
  };
}

describe("a volume of zfs-generic-nfs", () => {
  test.each(causes)("%s is %s until it is repaired", async (_, reason, cause, mend) => {
    const { rig, driver } = await begun("zfs-generic-nfs");
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    await driver.create(volumeOf("pvc-2"), call);
    mkdirSync(rig.fake.place(dataset), { recursive: true });
    writeFileSync(join(rig.fake.place(dataset), "file"), "some bytes");
    expect(await reasonsOf(driver)).toEqual({});
    rig.fake.with(cause);
    expect(await reasonsOf(driver)).toEqual({ [id]: [reason] });
    rig.fake.with(mend);
    expect(await reasonsOf(driver)).toEqual({});
  });
});

describe("a pool", () => {
  test.each([
    ["DEGRADED", "PoolDegraded"],
    ["FAULTED", "PoolFaulted"],
    ["UNAVAIL", "PoolFaulted"],
  ])("that is %s is %s until it is ONLINE", async (state, reason) => {
    const { rig, driver } = await begun("zfs-local-dataset");
    await driver.create(volumeOf("pvc-1"), call);
    const put = (health: string) =>
      rig.fake.with(pools => {
        if (pools.state.pools["tank"]) pools.state.pools["tank"].health = health;
      });
    put(state);
    expect(await reasonsOf(driver)).toEqual({ storage: [reason] });
    put("ONLINE");
    expect(await reasonsOf(driver)).toEqual({});
  });

  test.each(["SUSPENDED", "ONLINE"])(
    "that is suspended and shown as %s is reported, although nothing in it can be listed",
    async word => {
      const { rig, driver } = await begun("zfs-local-zvol");
      await driver.create(volumeOf("pvc-1"), call);
      const suspend = (suspended: boolean) =>
        rig.fake.with(pools => {
          const { tank } = pools.state.pools;
          if (tank) Object.assign(tank, { suspended, health: suspended ? word : "ONLINE" });
        });
      suspend(true);
      expect(await reasonsOf(driver)).toEqual({ storage: ["PoolFaulted"] });
      suspend(false);
      expect(await reasonsOf(driver)).toEqual({});
    },
  );

  test("that has nothing left is full, and its volumes' quotas are not blamed", async () => {
    const { rig, driver } = await begun("zfs-generic-nfs");
    await driver.create(volumeOf("pvc-1"), call);
    const size = (bytes: number) =>
      rig.fake.with(pools => {
        if (pools.state.pools["tank"]) pools.state.pools["tank"].bytes = bytes;
      });
    size(0);
    expect(await reasonsOf(driver)).toEqual({ storage: ["StorageFull"] });
    size(2 ** 40);
    expect(await reasonsOf(driver)).toEqual({});
  });

  test("that does not exist cannot be inspected", async () => {
    const { rig, driver } = await begun("zfs-generic-nfs");
    rig.fake.with(pools => {
      if (pools.state.pools["tank"]) pools.state.pools["tank"].imported = false;
    });
    await expect(driver.health?.look(call)).rejects.toMatchObject({ code: "unavailable" });
  });
});

test("a target that the kernel lost is missing until it is restored, and one command lists them all", async () => {
  const { rig, driver } = await begun("zfs-generic-iscsi");
  const { id, context } = await driver.create(volumeOf("pvc-1"), call);
  await driver.create(volumeOf("pvc-2"), call);
  expect(await reasonsOf(driver)).toEqual({});
  const target = join(rig.fake.folder, "lio", "iscsi", context["iqn"] ?? "", "tpgt_1");
  rmSync(join(target, ".."), { recursive: true });
  expect(await reasonsOf(driver)).toEqual({ [id]: ["TargetMissing"] });
  await driver.health?.restore?.(id, call);
  expect(await reasonsOf(driver)).toEqual({});
});

/** The parts of a group: its portals, and its LUNs without the names of their links. */
const namesIn = (group: string) => ["np", "lun"].map(each => readdirSync(join(group, each)));

describe("a target that nodes cannot use as the file of the connection says", () => {
  const broken: Readonly<Record<string, (group: string, folder: string) => void>> = {
    "lacks: enabled": group => writeFileSync(join(group, "enable"), "0\n"),
    // What rtslib leaves of a target whose device came late.
    "lacks: backstore, lun"(group, folder) {
      rmSync(join(group, "lun/lun_0"), { recursive: true });
      for (const hba of readdirSync(join(folder, "lio/core")))
        rmSync(join(folder, "lio/core", hba), { recursive: true });
    },
    "lacks: lun": group => rmSync(join(group, "lun/lun_0"), { recursive: true }),
    "lacks: portal": group => rmSync(join(group, "np/0.0.0.0:3260"), { recursive: true }),
    "lacks: authentication": group => writeFileSync(join(group, "attrib/authentication"), "0\n"),
    "lacks: authentication, because of its password": group => writeFileSync(join(group, "auth/password"), "CHAP\n"),
  };
  test.each(Object.entries(broken))("is found and restored: it %s", async (what, harm) => {
    const { rig, driver } = await begun("zfs-generic-iscsi");
    const { id, context } = await driver.create(volumeOf("pvc-1"), call);
    const group = join(rig.fake.folder, "lio/iscsi", context["iqn"] ?? "", "tpgt_1");
    const before = [rig.fake.targets(), namesIn(group)];
    harm(group, rig.fake.folder);
    const found = await driver.health?.look(call);
    const message = expect.stringContaining(what.replace(/, because.*/, "").replace("lacks:", "lacks"));
    expect([...(found?.volumes ?? [])]).toEqual([
      [id, [expect.objectContaining({ reason: "TargetMissing", message })]],
    ]);
    await driver.health?.restore?.(id, call);
    expect(await reasonsOf(driver)).toEqual({});
    expect([rig.fake.targets(), namesIn(group)]).toEqual(before);
    expect(readFileSync(join(group, "attrib/authentication"), "utf8")).toBe("1\n");
  });

  test("keeps what a person has made stricter", async () => {
    const { rig, driver } = await begun("zfs-generic-iscsi", { tpg: { attributes: { authentication: 0 } } });
    const { id, context } = await driver.create(volumeOf("pvc-1"), call);
    const group = join(rig.fake.folder, "lio/iscsi", context["iqn"] ?? "", "tpgt_1");
    writeFileSync(join(group, "attrib/authentication"), "1\n");
    expect(await reasonsOf(driver)).toEqual({});
    rmSync(join(group, "np/0.0.0.0:3260"), { recursive: true });
    await driver.health?.restore?.(id, call);
    expect(readFileSync(join(group, "attrib/authentication"), "utf8")).toBe("1\n");
  });

  test("gets back the portals and the access list that are saved of it, and the serial that nodes know", async () => {
    const { rig, driver } = await begun("zfs-generic-iscsi");
    const { id, context } = await driver.create(volumeOf("pvc-1"), call);
    const path = join(rig.fake.folder, "lio-saveconfig.json");
    const saved = JSON.parse(readFileSync(path, "utf8"));
    const [group] = saved.targets[0].tpgs;
    group.portals = [{ ip_address: "10.0.0.5", port: 3261, iser: false, offload: false }];
    const lun = { index: 3, tpg_lun: 0, alias: "abc", write_protect: true };
    const acl = { node_wwn: "iqn.1994-05.com.example:node-1", mapped_luns: [lun], attributes: { dataout_timeout: 5 } };
    group.node_acls = [{ ...acl, chap_userid: "own", chap_password: "ownsecret123" }];
    saved.storage_objects[0].wwn = "a-serial-of-democratic-csi";
    writeFileSync(path, JSON.stringify(saved));
    rmSync(join(rig.fake.folder, "lio"), { recursive: true });
    await driver.health?.restore?.(id, call);
    const after = JSON.parse(readFileSync(path, "utf8"));
    expect(after.targets[0].tpgs[0].portals).toEqual(group.portals);
    expect(after.targets[0].tpgs[0].node_acls).toEqual(group.node_acls);
    expect(after.storage_objects[0].wwn).toBe("a-serial-of-democratic-csi");
    expect(context["iqn"]).toBe(after.targets[0].wwn);
    await driver.delete(id, call);
    expect(rig.fake.targets()).toEqual([]);
  });

  test("is restored also while nothing can be saved, which is then said", async () => {
    const { rig, driver } = await begun("zfs-generic-iscsi");
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    writeFileSync(join(rig.fake.folder, "lio-saveconfig.json"), "{");
    rmSync(join(rig.fake.folder, "lio"), { recursive: true });
    await expect(driver.health?.restore?.(id, call)).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("lio-saveconfig.json cannot be changed"),
    });
    expect(await reasonsOf(driver)).toEqual({});
    expect(readFileSync(join(rig.fake.folder, "lio-saveconfig.json"), "utf8")).toBe("{");
  });
});

test("a subsystem that the kernel lost, or that no port shows any more, is missing until it is restored", async () => {
  const { rig, driver } = await begun("zfs-generic-nvmeof");
  const { id, context } = await driver.create(volumeOf("pvc-1"), call);
  expect(await reasonsOf(driver)).toEqual({});
  const shown = join(rig.fake.folder, "nvmet", "ports", "1", "subsystems", context["nqn"] ?? "");
  const second = shown.replace("/ports/1/", "/ports/2/");
  const target = readlinkSync(shown);
  for (const each of [shown, second]) rmSync(each);
  expect(await reasonsOf(driver)).toEqual({ [id]: ["TargetMissing"] });
  symlinkSync(target, shown);
  expect(await reasonsOf(driver)).toEqual({});
});

test("a lost target is made again, and an existing one is left alone", async () => {
  const { rig, driver } = await begun("zfs-generic-iscsi");
  const { id, context } = await driver.create(volumeOf("pvc-1"), call);
  const lio = join(rig.fake.folder, "lio");
  const standing = rig.fake.targets();
  rmSync(lio, { recursive: true });
  expect(await reasonsOf(driver)).toEqual({ [id]: ["TargetMissing"] });
  await driver.health?.restore?.(id, call);
  expect(await reasonsOf(driver)).toEqual({});
  expect(rig.fake.targets()).toEqual(standing);
  writeFileSync(join(rig.fake.folder, "lio-fault"), "nolun");
  await driver.health?.restore?.(id, call);
  rmSync(join(lio, "iscsi", context["iqn"] ?? "", "tpgt_1", "lun"), { recursive: true });
  await expect(driver.health?.restore?.(id, call)).rejects.toMatchObject({ code: "unavailable" });
  await driver.health?.restore?.("pvc-none", call);
});

test("a file system that the NFS server no longer exports is missing and is shared again, where the exports can be read", async () => {
  const { rig, driver } = await begun("zfs-generic-nfs");
  const { id } = await driver.create(volumeOf("pvc-1"), call);
  await driver.create(volumeOf("pvc-2"), call);
  const lose = () =>
    rig.fake.with(pools => {
      const lost = pools.find("tank/k/v/pvc-1");
      if (lost) lost.shared = false;
    });
  expect(await reasonsOf(driver)).toEqual({});
  lose();
  expect(await reasonsOf(driver)).toEqual({ [id]: ["ShareMissing"] });
  rig.fake.commands();
  await driver.health?.restore?.(id, call);
  expect(rig.fake.commands().at(-1)).toBe("zfs share tank/k/v/pvc-1");
  expect(await reasonsOf(driver)).toEqual({});
  lose();
  writeFileSync(join(rig.fake.folder, "no-etab"), "");
  expect(await reasonsOf(driver)).toEqual({});
});

test("a blank in the name of an export is decoded, and other lines are ignored", () => {
  const text = "# comment\n/tank/a\\040b\t10.0.0.0/8(rw)\n/tank/c\t*(ro)\n/tank/c\t10.0.0.1(rw)\n\n";
  expect([...exportedIn(text)]).toEqual(["/tank/a b", "/tank/c"]);
});

test("drivers that share nothing themselves repair nothing", async () => {
  expect((await begun("zfs-local-zvol")).driver.health?.restore).toBeUndefined();
});

test("an inspection runs as many commands of zfs for ten volumes as for one", async () => {
  const { rig, driver } = await begun("zfs-generic-nfs");
  const count = async () => {
    rig.fake.commands();
    await reasonsOf(driver);
    return rig.fake.commands().length;
  };
  await driver.create(volumeOf("pvc-1"), call);
  const one = await count();
  for (let n = 2; n <= 10; n++) await driver.create(volumeOf(`pvc-${n}`), call);
  expect(await count()).toBe(one);
});
