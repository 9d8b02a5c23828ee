import { describe, expect, test } from "bun:test";
import type { Script, Step } from "../../../lib/io/script.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, gib, snapshotIds, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { sides } from "../../contract/steps.ts";
import { around, dataset, from, own, withParameters, type ZfsOptions, zfsRig } from "./zfs-rig.ts";

const call = callWith();
const open = perTest((options: ZfsOptions | string = "zfs-generic-nfs") =>
  zfsRig(typeof options === "string" ? { driver: options } : options),
);

const zvols = "zfs-local-zvol";

describe("a volume from another", () => {
  test.each([
    ["thin", {}],
    ["full", { detachedVolumesFromVolumes: "true", detachedVolumesFromSnapshots: "true" }],
  ])("%s, drops properties that only new datasets take", async (_, parameters) => {
    const datasetProperties = { casesensitivity: "insensitive", acltype: "posix" };
    const rig = await open({ driver: "zfs-generic-smb", zfs: { datasetProperties } });
    const driver = rig.open();
    await driver.create(volumeOf("a"), call);
    const snapshot = await snapshotsOf(driver).create("s", "a", {}, call);
    for (const [name, id] of [
      ["b", "a"],
      ["c", snapshot.id],
    ] as const)
      await driver.create(withParameters(volumeOf(name, gib, from(id)), parameters), call);
    expect(own(rig, dataset("b"), "casesensitivity")).toBe("insensitive");
  });

  test.each([
    ["thin", {}],
    ["full", { detachedVolumesFromVolumes: "true", detachedVolumesFromSnapshots: "true" }],
  ])("%s, keeps its access control lists as its source does, whose class chose that", async (_, parameters) => {
    const rig = await open("zfs-generic-nfs");
    const driver = rig.open();
    await driver.create(withParameters(volumeOf("a"), { "zfs.acltype": "posix" }), call);
    const snapshot = await snapshotsOf(driver).create("s", "a", {}, call);
    await driver.create(withParameters(volumeOf("b", gib, from("a")), parameters), call);
    await driver.create(withParameters(volumeOf("c", gib, from(snapshot.id)), parameters), call);
    expect(["a", "b", "c"].map(id => own(rig, dataset(id), "acltype"))).toEqual(["posix", "posix", "posix"]);
  });

  test.each([{}, { detachedVolumesFromSnapshots: "true" }])(
    "and restored from a detached snapshot keeps its lists as the connection says: %j",
    async parameters => {
      const rig = await open({ driver: "zfs-generic-nfs", zfs: { datasetProperties: { acltype: "posix" } } });
      const driver = rig.open();
      await driver.create(volumeOf("a"), call);
      const snapshot = await snapshotsOf(driver).create("s", "a", { detachedSnapshots: "true" }, call);
      await driver.create(withParameters(volumeOf("b", gib, from(snapshot.id)), parameters), call);
      expect(own(rig, dataset("b"), "acltype")).toBe("posix");
    },
  );

  test.each([{}, { detachedVolumesFromVolumes: "true" }])(
    "that is a block device keeps its reservation and never shrinks: %j",
    async parameters => {
      const rig = await open({ driver: zvols, zfs: { zvolEnableReservation: true } });
      const driver = rig.open();
      await driver.create(volumeOf("a", 4n * gib), call);
      expect(await codeOf(driver.create(withParameters(volumeOf("b", gib, from("a")), parameters), call))).toBe(
        "out-of-range",
      );
      await driver.create(withParameters(volumeOf("c", 8n * gib, from("a")), parameters), call);
      expect([own(rig, dataset("c"), "volsize"), own(rig, dataset("c"), "refreservation")]).toEqual([
        String(8n * gib),
        String(8n * gib),
      ]);
    },
  );

  test.each(["zfs-generic-nfs", "zfs-local-dataset"])(
    "that is a copy is mounted by zfs only where zfs mounts, with %s",
    async driverName => {
      const rig = await open(driverName);
      const source = await rig.open().create(volumeOf("a"), call);
      await rig.write(source, "content");
      const spec = withParameters(volumeOf("b", gib, from("a")), { detachedVolumesFromVolumes: "true" });
      rig.fake.commands();
      expect(await rig.read(await rig.open().create(spec, call))).toBe("content");
      const mounts = rig.fake.commands().filter(line => line.startsWith("zfs mount"));
      expect(mounts).toEqual(driverName === "zfs-generic-nfs" ? [`zfs mount ${dataset("b")}`] : []);
    },
  );

  test("that is a copy continues where it was cut, and half of it is never a volume", async () => {
    const rig = await open();
    const driver = rig.open();
    const source = await driver.create(volumeOf("a"), call);
    await rig.write(source, "content");
    const spec = withParameters(volumeOf("b", gib, from("a")), { detachedVolumesFromVolumes: "true" });
    rig.fake.faults({ cutReceive: 100 });
    expect(await codeOf(driver.create(spec, call))).not.toBe("ok");
    expect(await volumeIds(rig.open())).toEqual(["a"]);
    rig.fake.faults({ cutReceive: undefined });
    rig.fake.commands();
    expect(await rig.read(await rig.open().create(spec, call))).toBe("content");
    expect(rig.fake.find(dataset("b"))?.origin).toBeUndefined();
    for (const id of ["a", "b"]) await rig.open().delete(id, call);
    expect(await rig.remains()).toEqual([]);
  });

  test("that is a copy can be interrupted anywhere", async () => {
    const rig = await open();
    const source = await rig.open().create(volumeOf("a"), call);
    await rig.write(source, "content");
    const spec = withParameters(volumeOf("b", gib, from("a")), { detachedVolumesFromVolumes: "true" });
    for (const when of sides)
      for (let step = 1; ; step++) {
        const { driver, dead } = rig.dying(step, when);
        await driver.create(spec, call).catch(() => {});
        const volume = await rig.open().create(spec, call);
        expect([when, step, await rig.read(volume)]).toEqual([when, step, "content"]);
        await rig.open().delete("b", call);
        expect([when, step, await rig.remains()]).toEqual([when, step, [dataset("a")]]);
        if (!dead()) break;
      }
  }, 120_000);

  test("keeps foreign snapshots when it is requested again", async () => {
    const rig = await open();
    const driver = rig.open();
    await driver.create(volumeOf("a"), call);
    const spec = withParameters(volumeOf("b", gib, from("a")), { detachedVolumesFromVolumes: "true" });
    await driver.create(spec, call);
    rig.fake.zfs("snapshot", `${dataset("b")}@theirs`);
    await rig.open().create(spec, call);
    expect(rig.fake.find(`${dataset("b")}@theirs`)).toBeDefined();
  });
});

describe("snapshots", () => {
  test("that are copies can be interrupted anywhere, and outlive their volume", async () => {
    const rig = await open();
    const volume = await rig.open().create(volumeOf("a"), call);
    await rig.write(volume, "content");
    const detached = { detachedSnapshots: "true" };
    for (const when of sides)
      for (let step = 1; ; step++) {
        const { driver, dead } = rig.dying(step, when);
        await snapshotsOf(driver)
          .create("s", "a", detached, call)
          .catch(() => {});
        const { id, bytes } = await snapshotsOf(rig.open()).create("s", "a", detached, call);
        expect([when, step, id, bytes]).toEqual([when, step, "a/s", gib]);
        const restored = await rig.open().create(volumeOf("r", gib, from(id)), call);
        expect(await rig.read(restored)).toBe("content");
        await rig.open().delete("r", call);
        await snapshotsOf(rig.open()).delete(id, call);
        expect([when, step, await rig.remains()]).toEqual([when, step, [dataset("a")]]);
        if (!dead()) break;
      }
    await snapshotsOf(rig.open()).create("s", "a", detached, call);
    await rig.open().delete("a", call);
    expect(await snapshotIds(rig.open())).toEqual(["a/s"]);
    expect(await snapshotIds(rig.open(), "a")).toEqual(["a/s"]);
  }, 300_000);

  test.each(["zfs-generic-nfs", zvols])("of %s that are copies are not deleted while clones need them", async name => {
    const rig = await open(name);
    const driver = rig.open();
    await driver.create(volumeOf("a"), call);
    const { id } = await snapshotsOf(driver).create("s", "a", { detachedSnapshots: "true" }, call);
    await driver.create(volumeOf("b", gib, from(id)), call);
    expect(await codeOf(snapshotsOf(driver).delete(id, call))).toBe("failed-precondition");
    expect(await snapshotIds(driver)).toEqual([id]);
    await driver.delete("b", call);
    await snapshotsOf(driver).delete(id, call);
    await driver.delete("a", call);
    expect(await rig.remains()).toEqual([]);
  });

  test("are checked for their names by listing names alone", async () => {
    const rig = await open();
    await rig.open().create(volumeOf("a"), call);
    rig.fake.commands();
    await snapshotsOf(rig.open()).create("s", "a", {}, call);
    const lists = rig.fake.commands().filter(line => / -t snapshot/.test(line));
    expect(lists).toEqual(["zfs list -H -o name -S name -t snapshot,filesystem,volume -d 2 tank/k/v"]);
  });
});

describe("a deletion", () => {
  test.each(["zfs-generic-nfs", zvols])(
    "of %s that is refused changes nothing, and names the obstacle",
    async driverName => {
      const rig = await open(driverName);
      const driver = rig.open();
      await driver.create(volumeOf("a"), call);
      await driver.create(volumeOf("b", gib, from("a")), call);
      const before = structuredClone(rig.fake.find(dataset("a")));
      expect(await codeOf(driver.delete("a", call))).toBe("failed-precondition");
      expect(rig.fake.find(dataset("a"))).toEqual(before as never);
      await expect(driver.delete("a", call)).rejects.toThrow(dataset("b"));
    },
  );

  test("takes no datasets below with it", async () => {
    const rig = await open();
    const driver = rig.open();
    await driver.create(volumeOf("b"), call);
    rig.fake.zfs("create", `${dataset("b")}/theirs`);
    expect(await codeOf(driver.delete("b", call))).toBe("failed-precondition");
    expect(rig.fake.find(`${dataset("b")}/theirs`)).toBeDefined();
  });

  test("keeps a volume with a snapshot that is taken meanwhile", async () => {
    const rig = await open();
    await rig.open().create(volumeOf("a"), call);
    rig.fake.zfs("snapshot", `${dataset("a")}@autosnap_2026`);
    const host = around(rig.host, ({ steps }, run) => {
      const more = steps.some(({ argv }) => argv.includes("-r") || argv.some(word => `${word}`.includes("@autosnap")));
      if (more && rig.fake.find(`${dataset("a")}@taken`) === undefined)
        rig.fake.zfs("snapshot", `${dataset("a")}@taken`);
      return run();
    });
    expect(await codeOf(rig.on(host).delete("a", call))).toBe("failed-precondition");
    expect(rig.fake.find(`${dataset("a")}@taken`)).toBeDefined();
  });

  test("waits briefly for a busy volume", async () => {
    const rig = await open();
    await rig.open().create(volumeOf("a"), call);
    rig.fake.faults({ busy: { [dataset("a")]: 2 } });
    await rig.open().delete("a", call);
    expect(await rig.remains()).toEqual([]);
  });
});

test("parameters for this instance override those for the driver, which override general and plain ones", async () => {
  const rig = await open({ driver: "zfs-generic-nfs", instanceId: "i1" });
  const driver = rig.open();
  await driver.create(volumeOf("a"), call);
  const all = {
    detachedVolumesFromVolumes: "false",
    "democratic-csi.org/i1/detachedVolumesFromVolumes": "true",
    "democratic-csi.org/zfs-generic-nfs/detachedVolumesFromVolumes": "false",
    "democratic-csi.org/detachedVolumesFromVolumes": "false",
  };
  await driver.create(withParameters(volumeOf("b", gib, from("a")), all), call);
  expect(rig.fake.find(dataset("b"))?.origin).toBeUndefined();
  const spec = withParameters(volumeOf("c", gib, from("a")), { detachedVolumesFromVolumes: "yes" });
  expect(await codeOf(driver.create(spec, call))).toBe("invalid-argument");
});

test("5,000 volumes are listed by one command of zfs and one for their names, in less than a second of csimux's own time", async () => {
  const rig = await open();
  await rig.open().create(volumeOf("pvc-0"), call);
  const ids = Array.from({ length: 5000 }, (_, n) => `pvc-${n}`);
  const rowsOf = (properties: string, name: string) =>
    rig.fake.zfs("get", "-Hp", "-o", "name,property,value,source", properties, name);
  const list = ({ argv }: Step): string => {
    const properties = String(argv[argv.indexOf("-o") + 2]);
    const rows = rowsOf(properties, dataset("pvc-0"));
    return [rowsOf(properties, "tank/k/v"), ...ids.map(id => rows.replaceAll("pvc-0", id))].join("");
  };
  const texts: Readonly<Record<string, (step: Step) => string>> = {
    list,
    names: () => [...ids.map(dataset).sort().reverse(), "tank/k/v", ""].join("\n"),
    read: () => "tank\ttype\tfilesystem\t-\n",
  };
  const commands: string[] = [];
  const script = async (whole: Script) => {
    commands.push(...whole.steps.filter(({ argv }) => argv.includes("-d")).map(({ argv }) => String(argv[1])));
    return new Map(
      whole.steps.map(step => [step.name, { stdout: texts[step.name]?.(step) ?? "", stderr: "", exitCode: 0 }]),
    );
  };
  const before = process.cpuUsage();
  expect((await volumeIds(rig.on({ ...rig.host, script }), 5000)).length).toBe(5000);
  expect(process.cpuUsage(before).user).toBeLessThan(1_000_000);
  expect(commands).toEqual(["get", "list"]);
});
