import { describe, expect, test } from "bun:test";
import type { Driver } from "../../../lib/drivers/driver.ts";
import type { Kept } from "../../../lib/drivers/kept.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, gib, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { openZfs, type ZfsOptions, type ZfsRig, zfsRig } from "./zfs-rig.ts";

const call = callWith();
const open = perTest((options: Partial<ZfsOptions> = {}) => zfsRig({ driver: "zfs-generic-nfs", ...options }));
const tombstones = { deleteWithDependents: "tombstone" };

const kept = async (driver: Driver): Promise<readonly Kept[]> => (await driver.kept?.list(call)) ?? [];

/** A rig with the volume "a". */
async function withVolume(options?: Partial<ZfsOptions>): Promise<ZfsRig> {
  const rig = await open(options);
  await rig.open().create(volumeOf("a"), call);
  return rig;
}

describe("what is kept on ZFS", () => {
  test("a hold has its tag and the command that gives it up, as a shell reads it; also on a deleted snapshot", async () => {
    const rig = await withVolume();
    const { id } = await snapshotsOf(rig.open()).create("monday", "a", {}, call);
    rig.fake.zfs("hold", "it's; mine", "tank/k/v/a@monday");
    rig.fake.zfs("hold", "second", "tank/k/v/a@monday");
    const commands = ["'it'\\''s; mine'", "second"].map(tag => `zfs release ${tag} tank/k/v/a@monday`);
    const neededBy = ["it's; mine", "second"].map(name => ({ kind: "hold" as const, name }));
    const shown = { of: { kind: "snapshot" as const, id }, name: "tank/k/v/a@monday", neededBy, commands };
    expect(await kept(rig.open())).toMatchObject([{ what: "snapshot", ...shown }]);
    await snapshotsOf(rig.open()).delete(id, call);
    expect(await kept(rig.open())).toMatchObject([{ what: "deleted-snapshot", ...shown }]);
  });

  test("a snapshot of another program is shown only while something needs it; a clone elsewhere by its own name", async () => {
    const rig = await withVolume();
    rig.fake.zfs("snapshot", "tank/k/v/a@nightly");
    expect(await kept(rig.open())).toEqual([]);
    rig.fake.zfs("clone", "tank/k/v/a@nightly", "tank/mine");
    expect(await kept(rig.open())).toMatchObject([
      { what: "foreign-snapshot", of: undefined, neededBy: [{ kind: "object", name: "tank/mine" }] },
    ]);
  });

  test("what another connection or a person has at the same place is not shown", async () => {
    const rig = await withVolume({ instanceId: "east" });
    await rig.open().create(volumeOf("b", gib, { kind: "volume", id: "a" }), call);
    rig.fake.zfs("create", "tank/k/v/theirs");
    for (const name of ["tank/k/v/theirs@x", "tank/k/v@x"]) {
      rig.fake.zfs("snapshot", name);
      rig.fake.zfs("hold", "tag", name);
    }
    expect((await kept(rig.open())).map(({ name }) => name)).toEqual(["tank/k/v/a@volume-source-for-volume-b"]);
    rig.fake.zfs("set", "democratic-csi:volume_context_provisioner_instance_id=west", "tank/k/v/a");
    expect(await kept(rig.open())).toEqual([]);
  });

  test("a snapshot that an interrupted clone has left is shown with what removes it", async () => {
    const rig = await withVolume();
    rig.fake.zfs("snapshot", "tank/k/v/a@volume-source-for-volume-b");
    expect(await kept(rig.open())).toMatchObject([
      { what: "clone-source", of: { kind: "volume", id: "b" }, neededBy: [], frees: expect.stringMatching(/again/) },
    ]);
  });

  test("a name that csimux cannot have made is not taken for an id", async () => {
    const rig = await withVolume({ zfs: tombstones });
    await snapshotsOf(rig.open()).create("monday", "a", {}, call);
    await rig.open().delete("a", call);
    const [{ name = "" } = {}] = await kept(rig.open());
    rig.fake.zfs("set", "csimux:tombstone=../b", name);
    await rig.open().create(volumeOf("c"), call);
    for (const each of ["volume-source-for-volume-", "volume-source-for-snapshot-", "volume-source-for-volume-.."]) {
      rig.fake.zfs("snapshot", `tank/k/v/c@${each}`);
      rig.fake.zfs("hold", "tag", `tank/k/v/c@${each}`);
    }
    const found = (await kept(rig.open())).map(({ what, of, neededBy }) => [what, of, neededBy[0]]);
    expect(found.filter(([what]) => what === "deleted-volume")).toEqual([
      ["deleted-volume", undefined, { kind: "object", name: `${name}@monday` }],
    ]);
    expect(found.filter(([what]) => what === "foreign-snapshot")).toEqual(
      Array(3).fill(["foreign-snapshot", undefined, { kind: "hold", name: "tag" }]),
    );
  });

  test("a detached snapshot whose clone exists is shown", async () => {
    const rig = await withVolume();
    const { id } = await snapshotsOf(rig.open()).create("d", "a", { detachedSnapshots: "true" }, call);
    await rig.open().create(volumeOf("b", gib, { kind: "snapshot", id }), call);
    expect(await kept(rig.open())).toMatchObject([
      { what: "clone-source", name: "tank/k/s/a/d@volume-source-for-volume-b", neededBy: [{ name: "b" }] },
    ]);
  });

  test("a deleted volume is kept for holds and for what others put below it, and without its setting for good", async () => {
    const rig = await withVolume({ zfs: { ...tombstones, foreignSnapshots: "keep" } });
    const { id } = await snapshotsOf(rig.open()).create("monday", "a", {}, call);
    await rig.open().delete("a", call);
    const [{ name = "" } = {}] = await kept(rig.open());
    rig.fake.zfs("snapshot", `${name}@nightly`);
    rig.fake.zfs("create", `${name}/child`);
    rig.fake.zfs("hold", "backup", `${name}@monday`);
    const [deleted, ...others] = await kept(rig.open());
    expect(deleted).toMatchObject({ what: "deleted-volume", of: { kind: "volume", id: "a" } });
    expect(deleted?.neededBy.toSorted((a, b) => (a.name < b.name ? -1 : 1))).toEqual([
      { kind: "snapshot", name: id },
      { kind: "hold", name: "backup" },
      { kind: "object", name: `${name}/child` },
      { kind: "object", name: `${name}@nightly` },
    ]);
    expect(deleted?.commands).toEqual([`zfs release backup ${name}@monday`]);
    expect(others).toEqual([]);
    const unset = openZfs({ driver: "zfs-generic-nfs", folder: rig.fake.folder }, rig.host);
    expect((await kept(unset))[0]?.frees).toStartWith(
      "csimux destroys it only with zfs.deleteWithDependents: tombstone",
    );
  });

  test("a clone of a deleted volume that is deleted itself is named as that", async () => {
    const rig = await withVolume({ zfs: tombstones });
    await rig.open().create(volumeOf("b", gib, { kind: "volume", id: "a" }), call);
    await snapshotsOf(rig.open()).create("s", "b", {}, call);
    for (const id of ["a", "b"]) await rig.open().delete(id, call);
    const found = (await kept(rig.open())).map(({ of, neededBy }) => [of?.id, neededBy]);
    expect(Object.fromEntries(found)).toEqual({
      a: [{ kind: "deleted-volume", name: "b" }],
      b: [{ kind: "snapshot", name: "b@s" }],
    });
  });

  test("what is protected for a copy to another connection names the target of the copy", async () => {
    const rig = await withVolume();
    await rig.open().copySource?.protect({ kind: "volume", id: "a" }, "v:other/copy", 0, call);
    const [item, ...others] = await kept(rig.open());
    expect(item).toMatchObject({ what: "copy-snapshot", neededBy: [{ kind: "copy", name: "v:other/copy" }] });
    expect([item?.frees, others]).toEqual(["csimux removes it at the end of the copy: csimux copies list", []]);
  });
});
