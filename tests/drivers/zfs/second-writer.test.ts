import { expect, test } from "bun:test";
import { setImmediate as turn } from "node:timers/promises";
import type { Driver } from "../../../lib/drivers/driver.ts";
import { CommandError } from "../../../lib/io/runner.ts";
import type { Script } from "../../../lib/io/script.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, findVolume, getVolume, gib, snapshotsOf, volumeOf } from "../../contract/rig.ts";
import { wholeWith } from "../../fakes/zfs/whole.ts";
import { codeOf } from "./copies/copy-rig.ts";
import { around, from, type ZfsOptions, type ZfsRig, zfsRig } from "./zfs-rig.ts";

const call = callWith();
const opened = perTest(zfsRig);

const has = ({ steps }: Script, name: string): boolean => steps.some(each => each.name === name);

/** A controller that is not allowed to finish a volume; `before` runs before it destroys something. */
const refused = (rig: ZfsRig, before: () => Promise<unknown>): Driver =>
  rig.on(
    around(rig.host, async (whole, run) => {
      const finishing = wholeWith(whole, "finish", ":");
      if (finishing) {
        const outputs = await run(finishing);
        const make = { stdout: "", stderr: "cannot set property: permission denied\n", exitCode: 3 };
        return outputs.get("make")?.exitCode === 0 ? new Map([["make", make]]) : outputs;
      }
      if (has(whole, "set") && JSON.stringify(whole.steps).includes("provision_success=true"))
        return new Map([["set", { stdout: "", stderr: "cannot set property: permission denied\n", exitCode: 1 }]]);
      if (has(whole, "destroy")) await before();
      return run();
    }),
  );

test.each(["zfs-generic-nfs", "zfs-local-zvol", "zfs-generic-iscsi"])(
  "%s: the undo of a failed creation spares the volume that another controller has finished meanwhile",
  async driver => {
    const rig = await opened({ driver });
    const other = rig.open();
    const one = refused(rig, async () => {
      const volume = await other.create(volumeOf("pvc-1"), call);
      await rig.write(volume, "content");
    });
    expect(await codeOf(one.create(volumeOf("pvc-1"), call))).toBe("unavailable");
    const volume = await findVolume(other, "pvc-1");
    expect(volume && (await rig.read(volume))).toBe("content");
    await other.delete("pvc-1", call);
    expect(await rig.remains()).toEqual([]);
  },
);

test("a volume that another controller has removed and begun again is not finished by the first one", async () => {
  const rig = await opened({ driver: "zfs-local-zvol" });
  const other = rig.open();
  let isFirst = true;
  const one = rig.on(
    around(rig.host, async (whole, run) => {
      if (isFirst && has(whole, "set")) {
        isFirst = false;
        await other.delete("pvc-1", call);
        // Another controller begins it again, and ends.
        await rig.dying(3, "after").driver.create(volumeOf("pvc-1"), call).catch(turn);
      }
      return run();
    }),
  );
  expect(await codeOf(one.create(volumeOf("pvc-1"), call))).toBe("aborted");
  expect((await one.create(volumeOf("pvc-1"), call)).id).toBe("pvc-1");
});

test.each([
  { driver: "zfs-generic-iscsi" },
  { driver: "zfs-generic-nvmeof" },
  { driver: "zfs-generic-nvmeof", spdk: true },
])(
  "%o: the target of a zvol that another controller has removed never leads to the one that it made again",
  async options => {
    const rig = await opened(options);
    const other = rig.open();
    let made: readonly string[] = [];
    const one = rig.after(async (_, about): Promise<"run"> => {
      if (made.length === 0 && about.includes("python3")) {
        await other.delete("pvc-1", call);
        await other.create(volumeOf("pvc-1"), call);
        made = await rig.remains();
      }
      return "run";
    });
    expect(await codeOf(one.create(volumeOf("pvc-1"), call))).toBe("aborted");
    expect(made).toContainEqual(expect.stringContaining("pvc-1"));
    expect(await rig.remains()).toEqual(made);
    await other.delete("pvc-1", call);
    expect(await rig.remains()).toEqual([]);
  },
);

test.each(["zfs-generic-nfs", "zfs-local-zvol"])(
  "%s: where the parent has the mark of a finished volume, its children are none, and a failed creation leaves nothing",
  async driver => {
    const rig = await opened({ driver });
    rig.fake.zfs(
      "set",
      "democratic-csi:provision_success=true",
      "democratic-csi:csi_volume_content_source_type=x",
      "tank",
    );
    const one = refused(rig, async () => {});
    expect(await codeOf(one.create(volumeOf("pvc-1"), call))).toBe("permission-denied");
    expect(await rig.remains()).toEqual([]);
    expect((await rig.open().create(volumeOf("pvc-1"), call)).id).toBe("pvc-1");
  },
);

const sized = (gibs: bigint) => ({ required: gibs * gib, limit: undefined });

/** A controller right before whose first step of this name something happens. */
function afterwards(rig: ZfsRig, step: string, happens: () => Promise<unknown>): Driver {
  let isFirst = true;
  return rig.on(
    around(rig.host, async (whole, run) => {
      const acts = isFirst && has(whole, step);
      if (acts) isFirst = false;
      if (acts) await happens();
      return run();
    }),
  );
}

const expandedBy = (driver: Driver, gibs: bigint): Promise<unknown> =>
  driver.expand?.expand("pvc-1", sized(gibs), call) ?? Promise.reject(new Error("it can expand"));

test.each<ZfsOptions>([
  { driver: "zfs-generic-nfs" },
  { driver: "zfs-local-zvol" },
  { driver: "zfs-local-zvol", programs: true },
  { driver: "zfs-generic-iscsi", zfs: { zvolEnableReservation: true } },
])("%o: a late expansion does not shrink the volume that another controller has expanded further", async options => {
  const rig = await opened(options);
  const other = rig.open();
  await other.create(volumeOf("pvc-1"), call);
  const one = afterwards(rig, "set", () => expandedBy(other, 5n));
  expect(await expandedBy(one, 2n)).toMatchObject({ bytes: 5n * gib });
  expect((await getVolume(other, "pvc-1")).bytes).toBe(5n * gib);
  await expandedBy(one, 2n);
  await expandedBy(one, 6n);
  expect((await getVolume(other, "pvc-1")).bytes).toBe(6n * gib);
});

test.each(["zfs-generic-nfs", "zfs-local-zvol"])(
  "%s: a volume that another controller has finished and expanded meanwhile is not completed again",
  async driver => {
    const rig = await opened({ driver });
    const other = rig.open();
    await other.create(volumeOf("pvc-0"), call);
    // It ends after the volume was made, and before it is finished.
    const ending = around(rig.host, async (whole, run) => {
      await run(wholeWith(whole, "finish", ":") ?? whole);
      throw new CommandError("fake", "zfs", "lost", "the process was killed");
    });
    await rig.on(ending).create(volumeOf("pvc-1"), call).catch(turn);
    const one = afterwards(rig, "set", async () => {
      await other.create(volumeOf("pvc-1"), call);
      await expandedBy(other, 5n);
    });
    expect(await codeOf(one.create(volumeOf("pvc-1"), call))).toBe("aborted");
    expect((await getVolume(other, "pvc-1")).bytes).toBe(5n * gib);
  },
);

test("a snapshot of a zvol that another controller has expanded meanwhile has the size of its content, and copies keep it", async () => {
  const rig = await opened({ driver: "zfs-local-zvol" });
  const other = rig.open();
  await other.create(volumeOf("pvc-1"), call);
  const one = afterwards(rig, "make", () => expandedBy(other, 5n));
  expect((await snapshotsOf(one).create("s", "pvc-1", {}, call)).bytes).toBe(5n * gib);
  const source = from("pvc-1@s");
  expect(await codeOf(other.create({ ...volumeOf("pvc-2"), source }, call))).toBe("out-of-range");
  const copy = await other.create({ ...volumeOf("pvc-2"), range: sized(5n), source }, call);
  expect(copy.bytes).toBe(5n * gib);
});

test.each<readonly [what: string, step: string, parameters: Record<string, string>, options: Partial<ZfsOptions>]>([
  ["clone", "snapshot", {}, {}],
  ["clone", "snapshot", {}, { programs: true }],
  ["full copy", "make", { detachedVolumesFromVolumes: "true" }, {}],
])(
  "a %s of a zvol that another controller has expanded meanwhile is not cut off",
  async (_, step, parameters, options) => {
    const rig = await opened({ driver: "zfs-local-zvol", ...options });
    const other = rig.open();
    await other.create(volumeOf("pvc-1"), call);
    const one = afterwards(rig, step, () => expandedBy(other, 5n));
    const spec = { ...volumeOf("pvc-2"), parameters, source: from("pvc-1") };
    expect(await codeOf(one.create(spec, call))).toBe("aborted");
    expect(await codeOf(one.create(spec, call))).toBe("out-of-range");
    expect((await one.create({ ...spec, range: sized(5n) }, call)).bytes).toBe(5n * gib);
    for (const id of ["pvc-2", "pvc-1"]) await one.delete(id, call);
    expect(await rig.remains()).toEqual([]);
  },
);
