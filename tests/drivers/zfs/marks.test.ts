import { describe, expect, test } from "bun:test";
import { backendName } from "../../../lib/core/name.ts";
import type { Driver } from "../../../lib/drivers/driver.ts";

import { modules } from "../../../lib/drivers/index.ts";
import { familyOf, property } from "../../../lib/drivers/zfs/properties.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, getVolume, gib, snapshotIds, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { dataset, from, openZfs, type ZfsOptions, type ZfsRig, zfsRig } from "./zfs-rig.ts";

const call = callWith();
const opened = perTest(zfsRig);
/** Pools, and connections with one parent on them. */
async function pools(): Promise<{ rig: ZfsRig; on: (options: ZfsOptions) => Driver }> {
  const rig = await opened({ driver: "zfs-generic-nfs" });
  return { rig, on: options => openZfs({ ...options, folder: rig.fake.folder }, rig.host) };
}

const nfs = (instanceId?: string, zfs: object = {}): ZfsOptions => ({
  driver: "zfs-generic-nfs",
  zfs,
  ...(instanceId !== undefined && { instanceId }),
});
const copied = { detachedVolumesFromVolumes: "true" };

const pairs: readonly (readonly [string, ZfsOptions, ZfsOptions])[] = [
  ["of two instance_ids", nfs("a"), nfs("b")],
  ["of which the second has no instance_id", nfs("a"), nfs()],
  ["of two drivers", nfs("a"), { driver: "zfs-generic-smb", instanceId: "a" }],
];

describe.each(pairs)("a connection with another one on one parent, %s,", (_, first, second) => {
  const both = async () => {
    const { rig, on } = await pools();
    return { rig, a: on(first), b: on(second) };
  };

  test("does not see, change or remove its volumes", async () => {
    const { rig, a, b } = await both();
    await a.create(volumeOf("v"), call);
    const before = structuredClone(rig.fake.find(dataset("v")));
    expect(await volumeIds(b)).toEqual([]);
    expect(await codeOf(getVolume(b, "v"))).toBe("not-found");
    const made = b.create(volumeOf("v"), call);
    expect(await codeOf(made)).toBe("already-exists");
    await expect(made).rejects.toThrow(/belongs to the (?:driver|instance_id)/);
    expect(await codeOf(b.delete("v", call))).toBe("failed-precondition");
    const more = { required: 2n * gib, limit: undefined };
    expect(await codeOf(b.expand?.expand("v", more, call) ?? Promise.resolve())).toBe("not-found");
    expect(await codeOf(b.modify?.modify("v", { compression: "lz4" }, call) ?? Promise.resolve())).toBe("not-found");
    for (const parameters of [{}, copied])
      expect(await codeOf(b.create({ ...volumeOf("c", gib, from("v")), parameters }, call))).toBe("not-found");
    expect(await codeOf(snapshotsOf(b).create("s", "v", {}, call))).toBe("not-found");
    expect((await b.health?.look(call))?.example).toBeUndefined();
    expect(rig.fake.find(dataset("v"))).toEqual(before as never);
    expect(await volumeIds(a)).toEqual(["v"]);
    await a.delete("v", call);
    expect(await rig.remains()).toEqual([]);
  });

  test.each([{}, { detachedSnapshots: "true" }])("nor its snapshots, made with %j", async parameters => {
    const { a, b } = await both();
    await a.create(volumeOf("v"), call);
    const { id } = await snapshotsOf(a).create("s", "v", parameters, call);
    expect([await snapshotIds(b), await snapshotIds(b, "v")]).toEqual([[], []]);
    expect(await codeOf(snapshotsOf(b).get?.(id, call) ?? Promise.resolve())).toBe("not-found");
    expect(await codeOf(snapshotsOf(b).delete(id, call))).toBe("failed-precondition");
    expect(await codeOf(b.create(volumeOf("c", gib, from(id)), call))).toBe("not-found");
    await b.create(volumeOf("w"), call);
    expect((await snapshotsOf(b).create("s", "w", {}, call)).id).toBe("w@s");
    // A volume without instance_id belongs to every connection, so what the second makes without one is the first's, too.
    expect(await snapshotIds(a)).toEqual(second.instanceId === undefined ? [id, "w@s"] : [id]);
  });

  test("nor its group snapshots", async () => {
    const { a, b } = await both();
    await a.create(volumeOf("v"), call);
    const { id } = (await a.groupSnapshots?.create("g", ["v"], {}, call)) ?? { id: "" };
    expect(await codeOf(b.groupSnapshots?.get(id, [], call) ?? Promise.resolve())).toBe("not-found");
    expect(await codeOf(b.groupSnapshots?.delete(id, [], call) ?? Promise.resolve())).toBe("failed-precondition");
    expect(await codeOf(b.groupSnapshots?.create("h", ["v"], {}, call) ?? Promise.resolve())).toBe("not-found");
    expect(await snapshotIds(a)).toEqual(["v@g"]);
  });

  test("nor its tombstones, nor its unfinished copies", async () => {
    const { rig, on } = await pools();
    const aside = { deleteWithDependents: "tombstone" };
    const [a, b] = [on({ ...first, zfs: aside }), on({ ...second, zfs: aside })];
    await a.create(volumeOf("v"), call);
    const { id } = await snapshotsOf(a).create("s", "v", {}, call);
    await a.delete("v", call);
    await b.create(volumeOf("w"), call);
    expect(await snapshotIds(b)).toEqual([]);
    const trash = (await rig.remains()).find(name => name.includes("trash") && !name.includes("@")) ?? "";
    rig.fake.zfs("destroy", `${trash}@s`);
    await b.delete("w", call);
    await b.health?.look(call);
    expect(rig.fake.find(trash)).toBeDefined();
    await a.health?.look(call);
    expect(rig.fake.find(trash)).toBeUndefined();
    expect(id).toBe("v@s");
    const marks = [`${property.driver}=${first.driver}`, `${property.instance}=a`].flatMap(each => ["-o", each]);
    rig.fake.zfs("create", ...marks, dataset("csimux-recv-c"));
    await b.delete("c", call);
    await b.create(volumeOf("x"), call);
    expect(await codeOf(b.create({ ...volumeOf("c", gib, from("x")), parameters: copied }, call))).toBe("aborted");
    expect(rig.fake.find(dataset("csimux-recv-c"))).toBeDefined();
    await a.delete("c", call);
    await b.delete("x", call);
    expect(await rig.remains()).toEqual([]);
  });
});

test("a dataset with the name of an unfinished copy, but without marks, is left as it is", async () => {
  const { rig, on } = await pools();
  const driver = on(nfs("a"));
  await driver.create(volumeOf("x"), call);
  const foreign = [dataset("csimux-recv-c"), `tank/k/s/csimux-recv-${backendName("x s", 64)}`];
  for (const name of foreign) rig.fake.zfs("create", "-p", name);
  const before = foreign.map(name => structuredClone(rig.fake.find(name)));
  const refused = [
    driver.create({ ...volumeOf("c", gib, from("x")), parameters: copied }, call),
    snapshotsOf(driver).create("s", "x", { detachedSnapshots: "true" }, call),
  ];
  for (const each of refused) {
    expect(await codeOf(each)).toBe("failed-precondition");
    await expect(each).rejects.toThrow("prove that it is an unfinished copy of csimux");
  }
  await driver.delete("c", call);
  expect(foreign.map(name => rig.fake.find(name))).toEqual(before);
  expect(await volumeIds(driver)).toEqual(["x"]);
});

test("a volume of democratic-csi without marks belongs to every connection, one with an instance_id to that connection", async () => {
  const { rig, on } = await pools();
  const make = (id: string, ...more: readonly string[]) => {
    const all = [`${property.managed}=true`, `${property.success}=true`, "refquota=1G", ...more];
    rig.fake.zfs("create", "-p", "tank/k/v");
    rig.fake.zfs("create", ...all.flatMap(each => ["-o", each]), dataset(id));
  };
  make("old");
  make("named", `${property.driver}=zfs-generic-nfs`, `${property.volumeName}=pvc with another id`);
  make("a", `${property.driver}=zfs-generic-nfs`, `${property.instance}=a`);
  expect(await volumeIds(on(nfs("a")))).toEqual(["a", "named", "old"]);
  expect(await volumeIds(on(nfs("b")))).toEqual(["named", "old"]);
  expect(await volumeIds(on(nfs()))).toEqual(["named", "old"]);
  for (const id of ["a", "named", "old"]) await on(nfs("a")).delete(id, call);
  expect(await rig.remains()).toEqual([]);
});

test("drivers of ZFS serve each other's volumes only where their facts name the same family", () => {
  const all = modules
    .filter(({ facts }) => facts.territory?.system === "zfs")
    .flatMap(({ names, facts }) => names.map(name => [name, facts.family] as const));
  expect(all.length).toBeGreaterThan(20);
  for (const [one, family] of all)
    for (const [other, another] of all)
      expect([one, other, familyOf(one) === familyOf(other)]).toEqual([one, other, family === another]);
});

describe("a dataset that was received below the parent with the properties of a volume", () => {
  const received = (rig: ZfsRig, name: string, values: Record<string, string>): void =>
    rig.fake.with(pools => {
      const thing = pools.find(name);
      for (const [key, value] of Object.entries(values)) if (thing) thing.own[key] = { value, source: "received" };
    });
  const marks = (name: string) => ({
    [property.managed]: "true",
    [property.success]: "true",
    [property.volumeName]: name,
    [property.driver]: "zfs-generic-nfs",
  });

  test("is a backup under another name, and is neither listed nor served nor destroyed", async () => {
    const { rig, on } = await pools();
    const driver = on(nfs());
    await driver.create(volumeOf("v"), call);
    await snapshotsOf(driver).create("s", "v", {}, call);
    rig.fake.zfs("create", dataset("backup"));
    rig.fake.zfs("snapshot", `${dataset("backup")}@s`);
    received(rig, dataset("backup"), marks("v"));
    received(rig, `${dataset("backup")}@s`, {
      [property.managed]: "true",
      [property.success]: "true",
      [property.snapshotName]: "s",
      [property.snapshotVolume]: "v",
    });
    expect(await volumeIds(driver)).toEqual(["v"]);
    expect(await snapshotIds(driver)).toEqual(["v@s"]);
    expect(await codeOf(driver.delete("backup", call))).toBe("failed-precondition");
    expect(await codeOf(snapshotsOf(driver).delete("backup@s", call))).toBe("failed-precondition");
    expect(await codeOf(driver.create(volumeOf("backup"), call))).toBe("already-exists");
    expect(rig.fake.find(`${dataset("backup")}@s`)).toBeDefined();
  });

  test("is that volume under its own name, on the pool that it was moved to", async () => {
    const { rig, on } = await pools();
    rig.fake.zfs("create", "-p", dataset("v"));
    received(rig, dataset("v"), marks("v"));
    expect(await volumeIds(on(nfs()))).toEqual(["v"]);
    await on(nfs()).delete("v", call);
    expect(await rig.remains()).toEqual([]);
  });
});

test("a group snapshot is deleted without a snapshot of its name that was taken of a volume alone", async () => {
  const { rig, on } = await pools();
  const driver = on(nfs());
  for (const id of ["v", "w"]) await driver.create(volumeOf(id), call);
  await driver.groupSnapshots?.create("g", ["v"], {}, call);
  rig.fake.zfs(
    ...["snapshot", "-o", `${property.managed}=true`, "-o", `${property.success}=true`],
    ...["-o", `${property.snapshotName}=g`, `${dataset("w")}@g`],
  );
  expect((await driver.groupSnapshots?.get("g", [], call))?.snapshots.map(({ id }) => id)).toEqual(["v@g"]);
  await driver.groupSnapshots?.delete("g", [], call);
  expect(await snapshotIds(driver)).toEqual(["w@g"]);
});

test("a snapshot outside the connection's datasets stays when the volume that was cloned from it goes, whatever it is called", async () => {
  const { rig, on } = await pools();
  const origin = "tank/other/precious@volume-source-for-volume-v";
  rig.fake.zfs("create", "-p", "tank/other/precious");
  rig.fake.zfs("create", "-p", "tank/k/v");
  rig.fake.zfs("snapshot", origin);
  const values = [`${property.managed}=true`, `${property.success}=true`, `${property.volumeName}=v`];
  rig.fake.zfs("clone", ...values.flatMap(each => ["-o", each]), origin, dataset("v"));
  await on(nfs()).delete("v", call);
  expect(rig.fake.find(dataset("v"))).toBeUndefined();
  expect(rig.fake.find(origin)).toBeDefined();
});
