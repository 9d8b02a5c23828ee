import { expect, test } from "bun:test";
import { callWith, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { recentVersions } from "../../fakes/truenas/versions.ts";
import { on, parent, refusal } from "../truenas/rig.ts";
import { around, zfsRig } from "./zfs-rig.ts";

const call = callWith();
const parents = { datasetParentName: "nopool/k/v", detachedSnapshotsDatasetParentName: "nopool/k/s" };
const words =
  "the parent dataset nopool/k/v cannot be created: its pool does not exist or is not imported; " +
  "correct the dataset names of the connection, or import the pool";

/** An earlier call may have made the volume before the pool was exported, so nothing but a repeat is safe. */
const answer = {
  code: "unavailable",
  refused: "unusable",
  message: `connection "c1": cannot create volume "pvc-1": ${words}`,
};

test.each(["zfs-generic-nfs", "zfs-generic-iscsi"])(
  "a volume of %s is UNAVAILABLE while its pool does not exist",
  async driver => {
    const rig = await zfsRig({ driver, zfs: parents });
    try {
      expect(await refusal(rig.open().create(volumeOf("pvc-1"), call))).toMatchObject(answer);
    } finally {
      await rig.close();
    }
  },
);

test.each(recentVersions)("a volume on TrueNAS %s is UNAVAILABLE while its pool does not exist", async version => {
  const ask = on({ version }, "nfs", async driver => void (await driver.create(volumeOf("pvc-1"), call)), {
    zfs: parents,
  });
  expect(await refusal(ask)).toMatchObject(answer);
});

test.each(["zfs-generic-nfs", "zfs-generic-iscsi"])(
  "a volume, a snapshot and a group snapshot of %s are not reported as deleted while the dataset above them has another name",
  async driver => {
    const rig = await zfsRig({ driver });
    try {
      await rig.open().create(volumeOf("pvc-1"), call);
      await snapshotsOf(rig.open()).create("s", "pvc-1", {}, call);
      await rig.open().groupSnapshots?.create("g", ["pvc-1"], {}, call);
      rig.fake.zfs("rename", "tank/k", "tank/old");
      const gone = {
        code: "unavailable",
        message: expect.stringContaining("tank/k/v, below which the connection has"),
      };
      expect(await refusal(snapshotsOf(rig.open()).delete("pvc-1@s", call))).toMatchObject(gone);
      const group = async () => rig.open().groupSnapshots?.delete("g", [], call);
      expect(await refusal(group())).toMatchObject(gone);
      expect(await refusal(rig.open().delete("pvc-1", call))).toMatchObject(gone);
      rig.fake.zfs("rename", "tank/old", "tank/k");
      await snapshotsOf(rig.open()).delete("pvc-1@s", call);
      await group();
      await rig.open().delete("pvc-1", call);
      expect(await rig.remains()).toEqual([]);
    } finally {
      await rig.close();
    }
  },
);

test.each(["zfs-generic-nfs", "zfs-generic-iscsi"])(
  "group and detached snapshots of %s are not reported as deleted while the dataset above them has another name",
  async driver => {
    const rig = await zfsRig({ driver });
    try {
      await rig.open().create(volumeOf("pvc-1"), call);
      await rig.open().groupSnapshots?.create("group", ["pvc-1"], {}, call);
      const detached = await snapshotsOf(rig.open()).create("s", "pvc-1", { detachedSnapshots: "true" }, call);
      const ofGroup = () => rig.open().groupSnapshots?.delete("group", [], call) ?? Promise.reject(new Error("none"));
      const ofDetached = () => snapshotsOf(rig.open()).delete(detached.id, call);
      for (const [parent, ask] of [
        ["tank/k/v", ofGroup],
        ["tank/k/s", ofDetached],
      ] as const) {
        rig.fake.zfs("rename", parent, "tank/old");
        const gone = { code: "unavailable", message: expect.stringContaining(`${parent}, below which`) };
        expect(await refusal(ask())).toMatchObject(gone);
        rig.fake.zfs("rename", "tank/old", parent);
        await ask();
      }
      await rig.open().delete("pvc-1", call);
      expect(await rig.remains()).toEqual([]);
    } finally {
      await rig.close();
    }
  },
);

test.each(["zfs-generic-nfs", "zfs-generic-iscsi", "zfs-local-zvol"])(
  "a volume and a snapshot of %s are not reported as deleted while their pool is exported between two commands",
  async driver => {
    const rig = await zfsRig({ driver });
    const imported = (isThere: boolean) =>
      rig.fake.with(({ state }) => Object.assign(state.pools["tank"] ?? {}, { imported: isThere }));
    const exporting = rig.on(
      around(rig.host, async (whole, run) => {
        if (whole.steps.some(({ name }) => name === "destroy")) imported(false);
        return run();
      }),
    );
    try {
      await rig.open().create(volumeOf("pvc-1"), call);
      await snapshotsOf(rig.open()).create("s", "pvc-1", {}, call);
      for (const remove of [
        (on: typeof exporting) => snapshotsOf(on).delete("pvc-1@s", call),
        (on: typeof exporting) => on.delete("pvc-1", call),
      ]) {
        expect((await refusal(remove(exporting))).code).toBe("unavailable");
        imported(true);
        await remove(rig.open());
      }
      expect(await rig.remains()).toEqual([]);
    } finally {
      await rig.close();
    }
  },
);

test.each(recentVersions)(
  "a volume and a snapshot on TrueNAS %s are not reported as deleted while their pool is exported between two requests",
  async version => {
    await on({ version }, "nfs", async (driver, double) => {
      await driver.create(volumeOf("pvc-1"), call);
      await snapshotsOf(driver).create("s", "pvc-1", {}, call);
      const { state } = double;
      for (const remove of [() => snapshotsOf(driver).delete("pvc-1@s", call), () => driver.delete("pvc-1", call)]) {
        const { datasets, snapshots } = state;
        double.intercept = method => {
          if (/\.(?:delete|destroy)$/.test(method)) Object.assign(state, { datasets: {}, snapshots: {} });
          return undefined;
        };
        expect((await refusal(remove())).code).toBe("unavailable");
        double.intercept = undefined;
        Object.assign(state, { datasets, snapshots });
        await remove();
      }
      expect(state.datasets[`${parent}/pvc-1`]).toBeUndefined();
    });
  },
);
