import { describe, expect, test } from "bun:test";
import type { Driver, Source } from "../../../../lib/drivers/driver.ts";
import { perTest } from "../../../contract/per-test.ts";
import { callWith, getVolume, gib, reasonsOf, snapshotsOf, volumeOf } from "../../../contract/rig.ts";
import { numberOf, recentVersions, type Version } from "../../../fakes/truenas/versions.ts";
import { type ApiRig, type Protocol, parent, refusal, type Sections, truenasRig } from "../rig.ts";

const call = callWith();
const opened = perTest((protocol: Protocol, version: Version, zfs: Sections = {}) =>
  truenasRig(protocol, { version }, { zfs }),
);
const sized = (gibs: bigint) => ({ required: gibs * gib, limit: undefined });
const from = (id: string): Source => ({ kind: id.includes("@") ? "snapshot" : "volume", id });

/** A controller right before whose first request that fits something happens. */
function afterwards(rig: ApiRig, request: RegExp, happens: () => Promise<unknown>): Driver {
  let isFirst = true;
  return rig.after(async (_, about): Promise<"run"> => {
    const acts = isFirst && request.test(about);
    if (acts) isFirst = false;
    if (acts) await happens();
    return "run";
  });
}

/** A controller right before whose n-th request about the volume something happens. */
function beforeRequest(rig: ApiRig, n: number, happens: () => Promise<unknown>): Driver {
  let requests = 0;
  return rig.after(async (_, about): Promise<"run"> => {
    if (/pvc-1"/.test(about) && ++requests === n) await happens();
    return "run";
  });
}

const expandedBy = (driver: Driver, gibs: bigint): Promise<unknown> =>
  driver.expand?.expand("pvc-1", sized(gibs), call) ?? Promise.reject(new Error("it can expand"));

describe.each(recentVersions)("on TrueNAS %s", version => {
  test.each(["nfs", "iscsi"] as const)(
    "a late expansion over %s does not shrink the volume that another controller has expanded further",
    async protocol => {
      const rig = await opened(protocol, version);
      const other = rig.open();
      await other.create(volumeOf("pvc-1"), call);
      // It has read the volume.
      const one = beforeRequest(rig, 2, () => expandedBy(other, 5n));
      expect(await expandedBy(one, 2n)).toMatchObject({ bytes: 5n * gib });
      expect((await getVolume(other, "pvc-1")).bytes).toBe(5n * gib);
      await expandedBy(one, 2n);
      await expandedBy(one, 6n);
      expect((await getVolume(other, "pvc-1")).bytes).toBe(6n * gib);
    },
  );

  test("the larger of two expansions stays where the size is reserved first, and where the server refuses the smaller one", async () => {
    for (const [protocol, zfs, late] of [
      [
        "nfs",
        { datasetEnableReservation: true },
        (rig: ApiRig, act: () => Promise<unknown>) => beforeRequest(rig, 4, act),
      ],
      ["iscsi", {}, (rig: ApiRig, act: () => Promise<unknown>) => afterwards(rig, /dataset\.update /, act)],
    ] as const) {
      const rig = await opened(protocol, version, zfs);
      const other = rig.open();
      await other.create(volumeOf("pvc-1"), call);
      const one = late(rig, () => expandedBy(other, 5n));
      expect(await expandedBy(one, 2n)).toMatchObject({ bytes: 5n * gib });
      expect((await getVolume(other, "pvc-1")).bytes).toBe(5n * gib);
    }
  });

  test.each(["nfs", "iscsi"] as const)(
    "a volume over %s that another controller has finished and expanded meanwhile is not completed again",
    async protocol => {
      const rig = await opened(protocol, version);
      const other = rig.open();
      await other.create(volumeOf("pvc-1"), call);
      const success = "democratic-csi:provision_success";
      const dataset = rig.double.state.datasets[`${parent}/pvc-1`];
      if (!dataset) throw new Error("it was made");
      delete dataset.user[success];
      // Its creation was refused, and it has read what exists.
      const one = beforeRequest(rig, 4, async () => {
        await other.create(volumeOf("pvc-1"), call);
        await expandedBy(other, 5n);
      });
      expect((await refusal(one.create(volumeOf("pvc-1"), call))).code).toBe("aborted");
      expect((await getVolume(other, "pvc-1")).bytes).toBe(5n * gib);
    },
  );

  // From 25.10 on a volume is read once, and its guid is proved.
  test.skipIf(numberOf(version) >= 2510)(
    "a clone that another controller finishes while it is cleared as unfinished stays, and is shared",
    async () => {
      const rig = await opened("nfs", version);
      const other = rig.open();
      await other.create(volumeOf("pvc-0"), call);
      const spec = volumeOf("pvc-1", gib, from("pvc-0"));
      await other.create(spec, call);
      delete rig.double.state.datasets[`${parent}/pvc-1`]?.user["democratic-csi:provision_success"];
      const one = afterwards(rig, /^sharing\.nfs\.query /, () => other.create(spec, call));
      expect((await refusal(one.names?.discard("pvc-1", call) ?? Promise.resolve())).code).toBe("aborted");
      expect((await getVolume(other, "pvc-1")).source).toEqual(spec.source);
      expect(await reasonsOf(other)).toEqual({});
    },
  );

  // 26 does not answer the size of a new snapshot.
  test.skipIf(version === "26.0")(
    "a snapshot of a zvol that another controller has expanded meanwhile has the size of its content",
    async () => {
      const rig = await opened("iscsi", version);
      const other = rig.open();
      await other.create(volumeOf("pvc-1"), call);
      const one = afterwards(rig, /snapshot\.create /, () => expandedBy(other, 5n));
      expect((await snapshotsOf(one).create("s", "pvc-1", {}, call)).bytes).toBe(5n * gib);
      const source = from("pvc-1@s");
      expect((await refusal(other.create({ ...volumeOf("pvc-2"), source }, call))).code).toBe("out-of-range");
      const copy = await other.create({ ...volumeOf("pvc-2"), range: sized(5n), source }, call);
      expect(copy.bytes).toBe(5n * gib);
    },
  );

  test.each<readonly [string, Readonly<Record<string, string>>]>([
    ["clone", {}],
    ["full copy", { detachedVolumesFromVolumes: "true" }],
  ])("a %s of a zvol that another controller has expanded meanwhile is not cut off", async (_, parameters) => {
    const rig = await opened("iscsi", version);
    const other = rig.open();
    await other.create(volumeOf("pvc-1"), call);
    const one = afterwards(rig, /snapshot\.create /, () => expandedBy(other, 5n));
    const spec = { ...volumeOf("pvc-2"), parameters, source: from("pvc-1") };
    expect((await refusal(one.create(spec, call))).code).toBe("aborted");
    expect((await refusal(one.create(spec, call))).code).toBe("out-of-range");
    expect((await one.create({ ...spec, range: sized(5n) }, call)).bytes).toBe(5n * gib);
    for (const id of ["pvc-2", "pvc-1"]) await one.delete(id, call);
    expect(await rig.remains()).toEqual([]);
  });
});
