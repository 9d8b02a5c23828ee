import { expect, test } from "bun:test";
import { copyKey } from "../../../../lib/drivers/copying.ts";
import type { Driver, Source } from "../../../../lib/drivers/driver.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, gib, snapshotIds, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { openZfs, type ZfsOptions, zfsRig } from "../zfs-rig.ts";
import { codeOf, copyProperties, copySource, holdsIn, namesIn, targetOf } from "./copy-rig.ts";

const call = callWith();
const opened = perTest(zfsRig);
const volume: Source = { kind: "volume", id: "v" };
const target = targetOf("c");
const snapshot = `tank/k/v/v@csimux-copy-${copyKey(target)}-0`;

async function made(options: ZfsOptions = { driver: "zfs-generic-nfs" }) {
  const rig = await opened(options);
  const driver = rig.open();
  await driver.create(volumeOf("v"), call);
  const take = async (): Promise<Source> => ({
    kind: "snapshot",
    id: (await snapshotsOf(driver).create("s", "v", {}, call)).id,
  });
  return { rig, driver, take };
}

const protect = (driver: Driver, source: Source = volume, of = target, pass = 0) =>
  copySource(driver).protect(source, of, pass, call);

test("a snapshot of a volume is a held snapshot, which a repeated call finds, and tells what its stream forces on a receiver", async () => {
  const { rig, driver } = await made({ driver: "zfs-generic-iscsi", zfs: { zvolBlocksize: "8K" } });
  const first = await protect(driver);
  expect(first).toMatchObject({ name: snapshot, bytes: gib, stable: true });
  expect(first.traits).toMatchObject({ encrypted: false, blockBytes: 8192n });
  expect(first.proof).toMatch(/^\d+$/);
  expect(holdsIn(rig)).toEqual([`${snapshot} csimux-copy-${copyKey(target)}`]);
  expect(await protect(driver)).toEqual(first);
  const [found, ...others] = await copySource(driver).protectedSnapshots(call);
  expect([found?.target, others]).toEqual([target, []]);
  expect(Math.abs((found?.since ?? 0) - Date.now() / 1000)).toBeLessThan(60);
  await copySource(driver).release(target, first, call);
  expect(holdsIn(rig)).toHaveLength(1);
  await copySource(driver).release(target, undefined, call);
  await copySource(driver).release(target, undefined, call);
  expect([namesIn(rig), await copySource(driver).protectedSnapshots(call)]).toEqual([["v"], []]);
});

test("a snapshot that another process removes before it is held again is asked for again, because the volume exists", async () => {
  const { rig, driver } = await made();
  await protect(driver);
  let released = false;
  const other = rig.after(async (_, about): Promise<"run"> => {
    if (!released && about.includes("zfs hold") && !about.includes("zfs snapshot")) {
      released = true;
      await copySource(driver).release(target, undefined, call);
    }
    return "run";
  });
  expect([await codeOf(protect(other)), released]).toEqual(["aborted", true]);
  expect(await protect(other)).toMatchObject({ name: snapshot });
});

test("the size of a snapshot is that of the volume when it was taken", async () => {
  const { driver } = await made();
  const first = await protect(driver);
  await driver.expand?.expand("v", { required: 2n * gib, limit: undefined }, call);
  expect((await protect(driver)).bytes).toBe(first.bytes);
  expect((await protect(driver, volume, target, 1)).bytes).toBe(2n * gib);
});

test("a snapshot is protected by holds alone, each copy has its own, and what a user holds stays held", async () => {
  const { rig, driver, take } = await made();
  const source = await take();
  const name = `tank/k/v/${source.id}`;
  rig.fake.zfs("hold", "users", name);
  const [one, two] = [await protect(driver, source), await protect(driver, source, targetOf("d"))];
  expect([one.name, two.proof]).toEqual([name, one.proof]);
  expect((await copySource(driver).protectedSnapshots(call)).map(each => each.target).sort()).toEqual([
    target,
    targetOf("d"),
  ]);
  await copySource(driver).release(target, undefined, call);
  expect((await copySource(driver).protectedSnapshots(call)).map(each => each.target)).toEqual([targetOf("d")]);
  await copySource(driver).release(targetOf("d"), undefined, call);
  expect([holdsIn(rig), copyProperties(rig), namesIn(rig)]).toEqual([[`${name} users`], [], ["v", source.id]]);
});

test("a snapshot that is deleted meanwhile is not listed, can still be read for its copy, and goes with its release", async () => {
  const { rig, driver, take } = await made();
  const source = await take();
  const first = await protect(driver, source);
  await snapshotsOf(driver).delete(source.id, call);
  expect(await snapshotIds(driver)).toEqual([]);
  expect(await protect(driver, source)).toMatchObject({ name: first.name, proof: first.proof });
  expect(await codeOf(protect(driver, source, targetOf("d")))).toBe("not-found");
  expect(await codeOf(driver.delete("v", call))).toBe("aborted");
  await copySource(driver).release(target, undefined, call);
  expect(namesIn(rig)).toEqual(["v"]);
  await driver.delete("v", call);
});

const dependents: readonly ZfsOptions[] = [
  { driver: "zfs-generic-nfs" },
  { driver: "zfs-generic-nfs", zfs: { deleteWithDependents: "tombstone" } },
  { driver: "zfs-generic-iscsi", zfs: { foreignSnapshots: "keep" } },
];

test.each(dependents)(
  "a volume that a copy reads is neither deleted nor renamed, and stays shared (%o)",
  async options => {
    const { rig, driver } = await made(options);
    await protect(driver);
    const before = structuredClone([rig.fake.find("tank/k/v/v"), rig.fake.targets()]);
    const deleted = driver.delete("v", call);
    expect(await codeOf(deleted)).toBe("aborted");
    await expect(deleted).rejects.toThrow(`copied to "${target}"`);
    expect([rig.fake.find("tank/k/v/v"), rig.fake.targets()]).toEqual(before as never);
    // Also where the hold is missing, because the process ended before it.
    rig.fake.zfs("release", `csimux-copy-${copyKey(target)}`, snapshot);
    expect(await codeOf(driver.delete("v", call))).toBe("aborted");
    await copySource(driver).release(target, undefined, call);
    await driver.delete("v", call);
    expect(await rig.remains()).toEqual([]);
  },
);

test("a detached snapshot that a copy reads is deleted after it", async () => {
  const { rig, driver } = await made();
  const { id } = await snapshotsOf(driver).create("s", "v", { detachedSnapshots: "true" }, call);
  const source: Source = { kind: "snapshot", id };
  await protect(driver, source);
  expect((await copySource(driver).protectedSnapshots(call)).map(each => each.target)).toEqual([target]);
  expect(await codeOf(snapshotsOf(driver).delete(id, call))).toBe("aborted");
  await copySource(driver).release(target, undefined, call);
  await snapshotsOf(driver).delete(id, call);
  expect(namesIn(rig)).toEqual(["v"]);
});

test("a snapshot of a snapshot's name that csimux did not take for this copy is neither used, held nor destroyed", async () => {
  const { rig, driver } = await made();
  rig.fake.zfs("snapshot", snapshot);
  expect(await codeOf(protect(driver))).toBe("failed-precondition");
  await copySource(driver).release(target, undefined, call);
  expect([holdsIn(rig), rig.fake.find(snapshot)?.name]).toEqual([[], snapshot]);
});

test("nothing of another connection with the same parent is protected, found or released", async () => {
  const { rig } = await made({ driver: "zfs-generic-nfs", instanceId: "one" });
  const on = (instanceId: string) =>
    openZfs({ driver: "zfs-generic-nfs", instanceId, folder: rig.fake.folder }, rig.host);
  const [one, two] = [on("one"), on("two")];
  expect(await codeOf(protect(two))).toBe("not-found");
  await protect(one);
  expect(await copySource(two).protectedSnapshots(call)).toEqual([]);
  await copySource(two).release(target, undefined, call);
  expect(holdsIn(rig)).toHaveLength(1);
});

test.each([
  [{ locked: true }, "its key is not loaded"],
  [{ version: "2.2.7-1" }, "issue 12014"],
  [{ version: "2.3.2-1" }, "issue 12014"],
  [{ version: "2.3.99-514" }, "issue 12014"],
  [{ version: "2.2.8-1" }, undefined],
  [{ version: "2.3.3-1" }, undefined],
  [{ version: "2.4.0-1" }, undefined],
] as const)(
  "an encrypted source is sent only with its key, by a version that does that well: %o",
  async (state, why) => {
    const { rig, driver } = await made();
    rig.fake.with(pools => {
      const thing = pools.find("tank/k/v/v");
      if (!thing) return;
      thing.own["encryption"] = { value: "aes-256-gcm", source: "local" };
      thing.locked = "locked" in state;
    });
    if ("version" in state) rig.fake.faults({ version: state.version });
    const done = protect(driver);
    if (why === undefined) expect((await done).traits.encrypted).toBe(true);
    else {
      expect(await codeOf(done)).toBe("failed-precondition");
      await expect(done).rejects.toThrow(why);
      expect([holdsIn(rig), namesIn(rig)]).toEqual([[], ["v"]]);
    }
  },
);

test("the version matters for encrypted sources only", async () => {
  const { rig, driver } = await made();
  rig.fake.faults({ version: "2.1.11-1" });
  expect((await protect(driver)).traits.encrypted).toBe(false);
});

test("sources that cannot exist are refused before anything runs", async () => {
  const { rig, driver } = await made();
  rig.fake.commands();
  for (const id of ["-r", "../v", "v@s", "a/b", "v\n", "csimux-copy-v"])
    expect([id, await codeOf(protect(driver, { kind: "volume", id }))]).toEqual([id, "not-found"]);
  for (const id of ["v@-r", "v@a,b", "v@%", "v@@", "/s"])
    expect([id, await codeOf(protect(driver, { kind: "snapshot", id }))]).toEqual([id, "not-found"]);
  expect(rig.fake.commands()).toEqual([]);
});

test("a volume is frozen by the property readonly, and only one that is finished", async () => {
  const { rig, driver } = await made();
  await copySource(driver).freeze?.("v", true, call);
  expect(rig.fake.find("tank/k/v/v")?.own["readonly"]?.value).toBe("on");
  await copySource(driver).freeze?.("v", false, call);
  expect(rig.fake.find("tank/k/v/v")?.own["readonly"]?.value).toBe("off");
  rig.fake.zfs("create", "tank/k/v/theirs");
  for (const id of ["theirs", "none", "../v", "csimux-land-v"])
    expect([id, await codeOf(copySource(driver).freeze?.(id, true, call) ?? Promise.resolve())]).toEqual([
      id,
      "not-found",
    ]);
});
