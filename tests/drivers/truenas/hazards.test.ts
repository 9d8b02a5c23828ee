import { describe, expect, test } from "bun:test";
import { callWith, getVolume, gib, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { atEachStep } from "../../contract/steps.ts";
import { startDouble } from "../../fakes/truenas/double.ts";
import { numberOf, recentVersions } from "../../fakes/truenas/versions.ts";
import { sampled } from "../../sample.ts";
import { on, openOn, parent, refusal, remainsOf, sections, truenasRig } from "./rig.ts";

/** What other programs have lost volumes to, or shown to the wrong people. */

const call = callWith();
const prefix = "democratic-csi:";

describe.each(recentVersions)("on TrueNAS %s", version => {
  test("a dot in the name of a parent matches only a dot: datasets next to the parent are not volumes", async () => {
    const zfs = { datasetParentName: "tank/k.8s/v", detachedSnapshotsDatasetParentName: "tank/k.8s/s" };
    await on(
      { version },
      "nfs",
      async (driver, double) => {
        const { id } = await driver.create(volumeOf("pvc-1"), call);
        const own = double.state.datasets[`tank/k.8s/v/${id}`];
        if (!own) throw new Error("no dataset");
        for (const name of ["tank/kx8s", "tank/kx8s/v", "tank/kx8s/v/pvc-2", "tank/k.8s/vx", "tank/k.8s/vx/pvc-3"])
          double.state.datasets[name] = { ...own, name, user: { ...own.user }, native: { ...own.native } };
        const theirs = { dataset: "tank/kx8s/v/pvc-2", name: "s", guid: "7", createtxg: 7, creation: 7 };
        const user = { [`${prefix}csi_snapshot_name`]: "s", [`${prefix}managed_resource`]: "true" };
        double.state.snapshots[`${theirs.dataset}@s`] = { ...theirs, user, holds: 0, deferred: false };
        await snapshotsOf(driver).create("s", id, {}, call);
        expect(await volumeIds(driver)).toEqual([id]);
        const snapshots = await snapshotsOf(driver).list({ volumeId: undefined }, { token: undefined, max: 10 }, call);
        expect(snapshots.items.map(each => each.id)).toEqual([`${id}@s`]);
        for (const other of ["pvc-2", "pvc-3"]) {
          expect((await refusal(getVolume(driver, other))).code).toBe("not-found");
          await driver.delete(other, call);
        }
        await snapshotsOf(driver).delete(`${id}@s`, call);
        await driver.delete(id, call);
        expect(remainsOf(double).filter(name => /pvc-[23]/.test(name))).toHaveLength(3);
      },
      { zfs },
    );
  });

  test("an interrupted delete changes nothing of the volume that got the id of its share meanwhile", async () => {
    const rig = await truenasRig("nfs", { version });
    let round = 0;
    await atEachStep(
      (step, when) => {
        const { driver, dead } = rig.dying(step, when);
        const work = async () => {
          round++;
          const { id } = await rig.open().create(volumeOf(`pvc-${round}`), call);
          await driver.delete(id, call);
        };
        return { work, dead };
      },
      async step => {
        const kept = await rig.open().create(volumeOf(`other-${round}`), call);
        await rig.open().delete(`pvc-${round}`, call);
        const left = (await rig.remains()).filter(name => name.startsWith("nfs "));
        expect([step, left]).toEqual([step, [expect.stringContaining(`/mnt/${parent}/${kept.id}"`)]]);
        await rig.open().delete(kept.id, call);
      },
    );
    expect(await rig.remains()).toEqual([]);
    await rig.close();
  });

  test.each(["iscsi", "nvmeof"] as const)(
    "a deletion over %s keeps a target that has another volume's disk",
    async protocol => {
      if (protocol === "nvmeof" && numberOf(version) < 2510) return;
      await on({ version }, protocol, async (driver, double) => {
        const [mine, other] = [
          await driver.create(volumeOf("pvc-1"), call),
          await driver.create(volumeOf("pvc-2"), call),
        ];
        const note = `${prefix}freenas_${protocol}_assets_name`;
        const user = (id: string) => double.state.datasets[`${parent}/${id}`]?.user ?? {};
        user(mine.id)[note] = user(other.id)[note] ?? "";
        const { tables } = double.state;
        const theirs = structuredClone(protocol === "iscsi" ? [tables.target, tables.extent, tables.targetextent] : []);
        await driver.delete(mine.id, call);
        expect(await getVolume(driver, other.id)).toEqual(other);
        if (protocol === "iscsi") {
          expect(tables.target).toEqual(theirs[0] ?? []);
          expect(tables.extent).toEqual(theirs[1]?.slice(1) ?? []);
          expect(tables.targetextent).toEqual(theirs[2]?.slice(1) ?? []);
        } else expect(tables.nvmetNamespace).toHaveLength(1);
        expect(await driver.create(volumeOf("pvc-2"), call)).toEqual(other);
      });
    },
  );

  test("an owner can be set without a mode", async () => {
    const double = await startDouble({ version });
    const driver = openOn(double, "nfs", { zfs: { datasetPermissionsUser: "0", datasetPermissionsGroup: "3000" } });
    const { id } = await driver.create(volumeOf("pvc-1"), call);
    expect(double.state.datasets[`${parent}/${id}`]).toMatchObject({ mode: 0o755, uid: 0, gid: 3000 });
    const changes = double.requests.filter(({ method }) => method.startsWith("filesystem."));
    expect(changes.map(({ method }) => method)).toEqual(["filesystem.chown", "filesystem.stat"]);
    await driver.close?.();
    await double.close();
  });
});

const parameters = { detachedVolumesFromVolumes: "true" };

const interrupted = [
  { protocol: "iscsi", version: "26.0" },
  { protocol: "nfs", version: "24.10" },
  { protocol: "nfs", version: "25.04" },
  { protocol: "iscsi", version: "25.04" },
  { protocol: "nfs", version: "25.10" },
  { protocol: "nfs", version: "26.0" },
] as const;

describe.each(sampled(interrupted, ({ protocol, version }) => protocol === "iscsi" && version === "26.0"))(
  "a full copy over $protocol on TrueNAS $version",
  ({ protocol, version }) => {
    test("survives an interruption at any step", async () => {
      const rig = await truenasRig(protocol, { version });
      const volume = await rig.open().create(volumeOf("pvc-1"), call);
      await rig.write(volume, "data");
      const spec = { ...volumeOf("copy", 2n * gib, { kind: "volume" as const, id: volume.id }), parameters };
      const snapshotsLeft = async (of: typeof rig) => (await of.remains()).filter(name => name.includes("@"));
      await atEachStep(
        (step, when) => {
          const { driver, dead } = rig.dying(step, when);
          return { work: () => driver.create(spec, call), dead };
        },
        async step => {
          const early = (await volumeIds(rig.open())).includes("copy");
          const copy = await rig.open().create(spec, call);
          expect([step, await rig.read(copy), copy.bytes]).toEqual([step, "data", 2n * gib]);
          expect([step, early && (await getVolume(rig.open(), "copy"))]).toEqual([step, early && copy]);
          await rig.open().delete(copy.id, call);
          expect([step, await snapshotsLeft(rig)]).toEqual([step, []]);
        },
      );
      await atEachStep(
        (step, when) => {
          const { driver, dead } = rig.dying(step, when);
          return { work: () => driver.create(spec, call), dead };
        },
        async step => {
          await rig.open().delete("copy", call);
          expect([step, await volumeIds(rig.open())]).toEqual([step, ["pvc-1"]]);
        },
      );
      await rig.open().create(spec, call);
      await atEachStep(
        (step, when) => {
          const { driver, dead } = rig.dying(step, when);
          return { work: () => driver.delete("copy", call), dead };
        },
        async () => {
          await rig.open().delete("copy", call);
          await rig.open().create(spec, call);
        },
      );
      const copy = await rig.open().create(spec, call);
      await rig.open().delete(volume.id, call);
      expect(await rig.read(copy)).toBe("data");
      await rig.open().delete(copy.id, call);
      expect(await rig.remains()).toEqual([]);
      await rig.close();
    }, 180_000);
  },
);

test.each(recentVersions.filter(each => numberOf(each) >= 2510))(
  "on TrueNAS %s a volume with a key of its own keeps its name, under which TrueNAS keeps the key, while a clone needs it",
  async version => {
    const rig = await truenasRig("nfs", { version }, { zfs: { deleteWithDependents: "tombstone" } });
    const driver = rig.open();
    const parameters = { "zfs.encryption": "on" };
    await driver.create({ ...volumeOf("a"), parameters }, call);
    await driver.create(volumeOf("plain"), call);
    for (const id of ["a", "plain"]) await driver.create(volumeOf(`clone-of-${id}`, gib, { kind: "volume", id }), call);
    const before = await rig.state?.();
    const { code, message } = await refusal(driver.delete("a", call));
    expect([code, message]).toEqual(["failed-precondition", expect.stringContaining("encryption key of its own")]);
    expect(await rig.state?.()).toEqual(before);
    // What has the key of another dataset is set aside as ever.
    await driver.delete("plain", call);
    for (const id of ["clone-of-a", "a", "clone-of-plain"]) await driver.delete(id, call);
    expect(await rig.remains()).toEqual([]);
    await rig.close();
  },
);

describe.each(recentVersions.filter(each => numberOf(each) >= 2504))("on TrueNAS %s", version => {
  test.each<readonly ["keyLost" | "unmounted", number, string]>([
    ["keyLost", 2504, "has not kept the key"],
    ["unmounted", 2510, "has not mounted"],
  ])("a volume whose creation ended early is completed, or made again if it is %s", async (what, since, text) => {
    const rig = await truenasRig("nfs", { version });
    const driver = rig.open();
    await driver.create(volumeOf("first"), call);
    const dataset = (id: string) => rig.double.state.datasets[`${parent}/${id}`];
    const begun = async (id: string) => {
      rig.double.faults.loseOnce(/^pool\.dataset\.create$/, "after");
      const spec = { ...volumeOf(id), parameters: { "zfs.encryption": "on" } };
      expect((await refusal(driver.create(spec, call))).code).toBe("unavailable");
      return { spec, guid: dataset(id)?.guid };
    };
    const whole = await begun("whole");
    await driver.create(whole.spec, call);
    expect(dataset("whole")?.guid).toBe(whole.guid);
    const left = await begun("left");
    Object.assign(dataset("left") ?? {}, { [what]: true });
    // Before, the API does not show it.
    if (numberOf(version) >= since) {
      expect((await refusal(driver.create(left.spec, call))).message).toContain(text);
      expect(dataset("left")).toBeUndefined();
      await driver.create(left.spec, call);
      expect(dataset("left")).not.toHaveProperty(what);
    }
    await rig.close();
  });

  test("a volume for SMB whose creation ended before its access control list was set is made again", async () => {
    const rig = await truenasRig("smb", { version });
    const driver = rig.open();
    await driver.create(volumeOf("first"), call);
    rig.double.faults.loseOnce(/^pool\.dataset\.create$/, "after");
    expect((await refusal(driver.create(volumeOf("left"), call))).code).toBe("unavailable");
    delete rig.double.state.datasets[`${parent}/left`]?.acl;
    expect((await refusal(driver.create(volumeOf("left"), call))).message).toContain("access control list");
    await driver.create(volumeOf("left"), call);
    expect(rig.double.state.datasets[`${parent}/left`]).toHaveProperty("acl");
    await rig.close();
  });
});

test("a speed as the web interface spells it is sent as the API spells it", async () => {
  const more = { iscsi: { ...(sections.iscsi["iscsi"] as object), extentRpm: "Unknown", extentAvailThreshold: 99 } };
  await on(
    { version: "25.10" },
    "iscsi",
    async (driver, double) => {
      await driver.create(volumeOf("pvc-1"), call);
      expect(double.state.tables.extent[0]).toMatchObject({ rpm: "UNKNOWN", avail_threshold: 99 });
    },
    { more },
  );
});
