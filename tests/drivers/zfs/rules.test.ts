import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Source, VolumeSpec } from "../../../lib/drivers/driver.ts";
import { property } from "../../../lib/drivers/zfs/properties.ts";
import type { Script, Step, StorageHost } from "../../../lib/io/script.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, getVolume, gib, snapshotIds, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { type ZfsOptions, type ZfsRig, zfsRig } from "./zfs-rig.ts";

const call = callWith();
const open = perTest((options: ZfsOptions | string = "zfs-generic-nfs") =>
  zfsRig(typeof options === "string" ? { driver: options } : options),
);

const zvols = "zfs-local-zvol";
const from = (id: string): Source => ({ kind: id.includes("@") || id.includes("/") ? "snapshot" : "volume", id });
const withParameters = (spec: VolumeSpec, parameters: Record<string, string>): VolumeSpec => ({ ...spec, parameters });
const dataset = (id: string): string => `tank/k/v/${id}`;
const own = (rig: ZfsRig, name: string, key: string): string | undefined => rig.fake.find(name)?.own[key]?.value;

describe("a new volume", () => {
  test.each([
    [1n, 16384n],
    [1_073_741_824n, 1_073_741_824n],
    [1_000_000_000n, 1_000_013_824n],
    [2n ** 31n, 2n ** 31n],
    [2n ** 53n + 1n, 2n ** 53n + 16384n],
  ])("of %p bytes has whole blocks, and its repeat is equal to it", async (asked, got) => {
    const rig = await open(zvols);
    const spec = { ...volumeOf("a"), range: { required: asked, limit: undefined } };
    expect((await rig.open().create(spec, call)).bytes).toBe(got);
    expect((await rig.open().create(spec, call)).bytes).toBe(got);
    const wide = { ...spec, range: { required: asked, limit: got * 10n } };
    expect((await rig.open().create(wide, call)).bytes).toBe(got);
  });

  test("is refused when its whole blocks exceed the limit", async () => {
    const rig = await open(zvols);
    const spec = { ...volumeOf("a"), range: { required: 1000n, limit: 1001n } };
    expect(await codeOf(rig.open().create(spec, call))).toBe("out-of-range");
    expect(await rig.remains()).toEqual([]);
  });

  test("has its compression and deduplication from the beginning", async () => {
    const rig = await open({ driver: zvols, zfs: { zvolCompression: "lz4", zvolDedup: "off", zvolBlocksize: "8K" } });
    await rig.open().create(volumeOf("a"), call);
    const create = rig.fake.commands().find(line => line.startsWith("zfs create -o"));
    for (const part of ["compression=lz4", "dedup=off", "volblocksize=8K", "refreservation=0"])
      expect(create).toContain(part);
  });

  test("of one class does not take the properties of another", async () => {
    const rig = await open(zvols);
    const driver = rig.open();
    await Promise.all([
      driver.create(withParameters(volumeOf("a"), { "zfs.volblocksize": "64K", "zfs.compression": "zstd" }), call),
      driver.create(withParameters(volumeOf("b"), { "zfs.volblocksize": "4k" }), call),
      driver.create(volumeOf("c"), call),
    ]);
    expect(["a", "b", "c"].map(id => own(rig, dataset(id), "volblocksize"))).toEqual(["65536", "4096", "16384"]);
    expect(["a", "b", "c"].map(id => own(rig, dataset(id), "compression"))).toEqual(["zstd", undefined, undefined]);
  });

  test.each(["mountpoint", "sharenfs", "democratic-csi:managed_resource", "refquota"])(
    "cannot be given %s by its class",
    async name => {
      const rig = await open();
      const spec = withParameters(volumeOf("a"), { [`zfs.${name}`]: "x" });
      expect(await codeOf(rig.open().create(spec, call))).toBe("invalid-argument");
      expect(await rig.remains()).toEqual([]);
    },
  );

  test("with a value that could not be read back is refused, and no value is run by a shell", async () => {
    const datasetProperties = { "org.example:owner": "{{ parameters.owner }}" };
    const rig = await open({ driver: "zfs-generic-nfs", zfs: { datasetProperties } });
    for (const owner of ["a\tb", "a\nb", "a\0b", "x".repeat(8192)]) {
      const spec = withParameters(volumeOf("a"), { owner });
      expect([owner.slice(0, 5), await codeOf(rig.open().create(spec, call))]).toEqual([
        owner.slice(0, 5),
        "invalid-argument",
      ]);
    }
    const owner = `it's "$(touch ${rig.fake.folder}/owned)"; \`id\` = \\ ü`;
    await rig.open().create(withParameters(volumeOf("a"), { owner }), call);
    expect(own(rig, dataset("a"), "org.example:owner")).toBe(owner);
    expect(existsSync(join(rig.fake.folder, "owned"))).toBe(false);
  });

  test("whose properties ZFS refuses leaves nothing", async () => {
    const rig = await open({ driver: "zfs-generic-nfs", zfs: { datasetProperties: { nonsense: "x" } } });
    expect(await codeOf(rig.open().create(volumeOf("a"), call))).toBe("failed-precondition");
    expect(await rig.remains()).toEqual([]);
  });

  test("that does not fit into the pool is resource-exhausted and leaves nothing", async () => {
    const rig = await open({ driver: zvols, zfs: { zvolEnableReservation: true } });
    expect(await codeOf(rig.open().create(volumeOf("a", 2n ** 50n), call))).toBe("resource-exhausted");
    expect(await rig.remains()).toEqual([]);
  });

  test("whose owner cannot be set is not reported as made, and leaves nothing", async () => {
    const rig = await open({ driver: "zfs-generic-nfs", zfs: { datasetPermissionsUser: "no-such-user" } });
    expect(await codeOf(rig.open().create(volumeOf("a"), call))).not.toBe("ok");
    expect(await rig.remains()).toEqual([]);
  });

  test.each(["zfs-generic-nfs", "zfs-generic-smb"])(
    "of %s that zfs has created but cannot share is not reported as made, and leaves nothing",
    async driver => {
      const rig = await open(driver);
      const shares = (works: boolean) =>
        rig.fake.with(({ state }) => {
          state.faults.unshared = !works;
        });
      await rig.open().create(volumeOf("source"), call);
      shares(false);
      for (const spec of [volumeOf("a"), volumeOf("b", gib, from("source"))]) {
        const made = rig.open().create(spec, call);
        await expect(made).rejects.toThrow("share creation failed");
        expect(await rig.remains()).toEqual([dataset("source")]);
      }
      shares(true);
      expect((await rig.open().create(volumeOf("a"), call)).id).toBe("a");
    },
  );

  test.each(["zfs-generic-nfs", zvols])(
    "of %s is never made from a dataset without a mark, however empty it looks; the error says what to remove",
    async driverName => {
      const rig = await open(driverName);
      const size = driverName === zvols ? ["-s", "-V", String(gib)] : [];
      rig.fake.zfs("create", "-p", "tank/k/v");
      rig.fake.zfs("create", ...size, dataset("a"));
      const before = structuredClone(rig.fake.find(dataset("a")));
      const refused = rig.open().create(volumeOf("a"), call);
      expect(await codeOf(refused)).toBe("already-exists");
      await expect(refused).rejects.toThrow(`zfs destroy ${dataset("a")}`);
      expect(rig.fake.find(dataset("a"))).toEqual(before as never);
      rig.fake.zfs("destroy", dataset("a"));
      expect((await rig.open().create(volumeOf("a"), call)).bytes).toBe(gib);
    },
  );

  test("is never made from a clone without a mark", async () => {
    const rig = await open();
    await rig.open().create(volumeOf("a"), call);
    rig.fake.zfs("snapshot", `${dataset("a")}@volume-source-for-volume-b`);
    rig.fake.zfs("clone", `${dataset("a")}@volume-source-for-volume-b`, dataset("b"));
    expect(await codeOf(rig.open().create(volumeOf("b", gib, from("a")), call))).toBe("already-exists");
    expect(own(rig, dataset("b"), property.managed)).toBeUndefined();
  });

  test("that another csimux is making gets its mark a moment later, and csimux waits for it", async () => {
    const rig = await open();
    rig.fake.zfs("create", "-p", dataset("a"));
    const host: StorageHost = {
      ...rig.host,
      async script(whole, signal) {
        const outputs = await rig.host.script(whole, signal);
        if (outputs.has("make"))
          rig.fake.zfs("set", `${property.managed}=true`, `${property.volumeName}=a`, dataset("a"));
        return outputs;
      },
    };
    expect((await rig.on(host).create(volumeOf("a"), call)).id).toBe("a");
  });

  test.each(["zfs-generic-nfs", zvols])(
    "of %s that its host reports as made, but that does not exist, is unavailable",
    async driverName => {
      const rig = await open(driverName);
      rig.fake.zfs("create", "-p", "tank/k/v");
      const host: StorageHost = {
        ...rig.host,
        async script({ steps: [first, ...rest], ...whole }, signal) {
          if (first.name !== "make") return rig.host.script({ ...whole, steps: [first, ...rest] }, signal);
          const idle = { ...first, argv: ["true"] as const };
          return rig.host.script({ ...whole, steps: [idle, ...rest] }, signal);
        },
      };
      const made = rig.on(host).create(volumeOf("a"), call);
      expect(await codeOf(made)).toBe("unavailable");
      await expect(made).rejects.toThrow("does not exist");
      await rig.open().create(volumeOf("b"), call);
      expect(await codeOf(snapshotsOf(rig.on(host)).create("s", "b", {}, call))).toBe("unavailable");
    },
  );

  test("whose parent another process is making is aborted, not reported as missing", async () => {
    const rig = await open();
    const host: StorageHost = {
      ...rig.host,
      async script(whole, signal) {
        const outputs = await rig.host.script(whole, signal);
        const stderr = "cannot create 'tank/k/v/a': parent does not exist";
        return outputs.has("make") ? new Map([...outputs, ["make", { exitCode: 1, stdout: "", stderr }]]) : outputs;
      },
    };
    expect(await codeOf(rig.on(host).create(volumeOf("a"), call))).toBe("aborted");
  });

  test("whose name gives the id of another one is refused, and does not change it", async () => {
    const rig = await open();
    await rig.open().create(volumeOf("a"), call);
    rig.fake.zfs("set", `${property.volumeName}=another name`, dataset("a"));
    expect(await codeOf(rig.open().create(volumeOf("a"), call))).toBe("already-exists");
    expect(own(rig, dataset("a"), property.volumeName)).toBe("another name");
  });

  test("has properties that its file writes as numbers or flags", async () => {
    const datasetProperties = { copies: 2, "org.example:kept": true };
    const rig = await open({ driver: "zfs-generic-nfs", zfs: { datasetProperties } });
    await rig.open().create(volumeOf("a"), call);
    expect([own(rig, dataset("a"), "copies"), own(rig, dataset("a"), "org.example:kept")]).toEqual(["2", "true"]);
  });

  test("that an older csimux or democratic-csi left unfinished, with another size, is completed", async () => {
    const rig = await open(zvols);
    rig.fake.zfs("create", "-p", "tank/k/v");
    const told = [`${property.managed}=true`, `${property.volumeName}=a`];
    rig.fake.zfs("create", "-o", told[0] ?? "", "-o", told[1] ?? "", "-V", "16384", dataset("a"));
    expect((await rig.open().create(volumeOf("a"), call)).bytes).toBe(gib);
    expect((await getVolume(rig.open(), "a")).bytes).toBe(gib);
  });
});

test.each([
  ["zfs-generic-nfs", "server", "nas", "10.9.8.7"],
  ["zfs-generic-smb", "server", "nas", "-oexec"],
  ["zfs-generic-iscsi", "portal", "nas:3260", "10.9.8.7:3260"],
  ["zfs-generic-nvmeof", "transports", "tcp://nas:4420,tcp://nas2:4420", "tcp://10.9.8.7:4420"],
])("%s leads nodes to the %s of its file, %s, where the storage says %s", async (driver, key, own, other) => {
  const rig = await open(driver);
  const { context } = await rig.open().create(volumeOf("a"), call);
  expect(context[key]).toBe(own);
  const said = JSON.stringify({ ...context, [key]: other });
  rig.fake.zfs("set", `${property.context}=${said}`, dataset("a"));
  expect((await getVolume(rig.open(), "a")).context).toEqual(context);
  expect((await rig.open().create(volumeOf("a"), call)).context).toEqual(context);
});

describe("the share of a volume over SMB", () => {
  test.each([
    ["a-b", "a_b"],
    ["a_b", "a-b"],
    ["a-b-c-d-e-f-g-h-i", "a_b-c-d-e-f-g-h-i"],
  ])("of %s keeps its name, which %s would take from it", async (first, second) => {
    const rig = await open("zfs-generic-smb");
    const driver = rig.open();
    const { context } = await driver.create(volumeOf(first), call);
    await driver.create(volumeOf("source"), call);
    expect(await codeOf(driver.create(volumeOf(second), call))).toBe("failed-precondition");
    expect(await codeOf(driver.create(volumeOf(second, gib, from("source")), call))).toBe("failed-precondition");
    expect([...(await volumeIds(driver))].sort()).toEqual([first, "source"].sort());
    expect((await driver.create(volumeOf(first), call)).context).toEqual(context);
    await driver.delete(first, call);
    expect((await driver.create(volumeOf(second), call)).context).toEqual(context);
  });
});

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
    rig.fake.with(pools => {
      pools.state.faults.cutReceive = 100;
    });
    expect(await codeOf(driver.create(spec, call))).not.toBe("ok");
    expect(await volumeIds(rig.open())).toEqual(["a"]);
    rig.fake.with(pools => {
      delete pools.state.faults.cutReceive;
    });
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
    for (const when of ["before", "after"] as const)
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
    for (const when of ["before", "after"] as const)
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

  test("that were deleted while clones need them are not listed, and disappear with the clones", async () => {
    const rig = await open();
    const driver = rig.open();
    await driver.create(volumeOf("a"), call);
    const { id } = await snapshotsOf(driver).create("s", "a", {}, call);
    await driver.create(volumeOf("b", gib, from(id)), call);
    await snapshotsOf(driver).delete(id, call);
    expect(await snapshotIds(driver)).toEqual([]);
    expect(await codeOf(driver.delete("a", call))).toBe("failed-precondition");
    await driver.delete("b", call);
    await driver.delete("a", call);
    expect(await rig.remains()).toEqual([]);
  });

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

  test("takes snapshots of other programs with it, but not datasets below", async () => {
    const rig = await open();
    const driver = rig.open();
    await driver.create(volumeOf("a"), call);
    rig.fake.zfs("snapshot", `${dataset("a")}@autosnap_2026`);
    await driver.delete("a", call);
    expect(await rig.remains()).toEqual([]);
    await driver.create(volumeOf("b"), call);
    rig.fake.zfs("create", `${dataset("b")}/theirs`);
    expect(await codeOf(driver.delete("b", call))).toBe("failed-precondition");
    expect(rig.fake.find(`${dataset("b")}/theirs`)).toBeDefined();
  });

  test("keeps a volume with a snapshot that is taken meanwhile", async () => {
    const rig = await open();
    await rig.open().create(volumeOf("a"), call);
    rig.fake.zfs("snapshot", `${dataset("a")}@autosnap_2026`);
    const host: StorageHost = {
      ...rig.host,
      async script(whole, signal) {
        const more = whole.steps.some(
          ({ argv }) => argv.includes("-r") || argv.some(word => String(word).includes("@autosnap")),
        );
        if (more && rig.fake.find(`${dataset("a")}@taken`) === undefined)
          rig.fake.zfs("snapshot", `${dataset("a")}@taken`);
        return rig.host.script(whole, signal);
      },
    };
    expect(await codeOf(rig.on(host).delete("a", call))).toBe("failed-precondition");
    expect(rig.fake.find(`${dataset("a")}@taken`)).toBeDefined();
  });

  test("of a held snapshot fails with that reason", async () => {
    const rig = await open();
    await rig.open().create(volumeOf("a"), call);
    rig.fake.zfs("snapshot", `${dataset("a")}@kept`);
    rig.fake.zfs("hold", "backup", `${dataset("a")}@kept`);
    expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
    expect(own(rig, dataset("a"), "sharenfs")).toBe("rw");
  });

  test("waits briefly for a busy volume, and then is aborted", async () => {
    const rig = await open();
    const busy = (times: number) =>
      rig.fake.with(pools => {
        pools.state.faults.busy = { [dataset("a")]: times };
      });
    await rig.open().create(volumeOf("a"), call);
    busy(99);
    expect(await codeOf(rig.open().delete("a", call))).toBe("aborted");
    busy(2);
    await rig.open().delete("a", call);
    expect(await rig.remains()).toEqual([]);
  });
});

describe("a pool that democratic-csi wrote", () => {
  const written = (rig: ZfsRig): void => {
    const set = (name: string, values: Record<string, string>) =>
      rig.fake.zfs("set", ...Object.entries(values).map(([key, value]) => `${key}=${value}`), name);
    const context = JSON.stringify({ node_attach_driver: "nfs", server: "old", share: "/mnt/tank/k/v/pvc-1" });
    rig.fake.zfs("create", "-p", dataset("pvc-1"));
    set(dataset("pvc-1"), {
      refquota: "1G",
      sharenfs: "rw",
      [property.volumeName]: "pvc-1",
      [property.managed]: "true",
      [property.driver]: "zfs-generic-nfs",
      [property.context]: context,
      [property.success]: "true",
    });
    // Older ones have neither a name nor a driver.
    rig.fake.zfs("create", "-p", dataset("pvc-old"));
    set(dataset("pvc-old"), {
      refquota: "2G",
      [property.managed]: "true",
      [property.success]: "true",
      [property.context]: context,
    });
    rig.fake.zfs("create", "-p", dataset("pvc-broken"));
    set(dataset("pvc-broken"), {
      refquota: "1G",
      [property.managed]: "true",
      [property.success]: "true",
      [property.context]: "{",
    });
    rig.fake.zfs("snapshot", `${dataset("pvc-1")}@snapshot-1`, `${dataset("pvc-1")}@autosnap`);
    set(`${dataset("pvc-1")}@snapshot-1`, {
      [property.snapshotName]: "snapshot-1",
      [property.snapshotVolume]: "pvc-1",
      [property.managed]: "true",
      [property.success]: "true",
    });
    rig.fake.zfs("snapshot", `${dataset("pvc-1")}@volume-source-for-volume-pvc-2`);
    rig.fake.zfs("clone", `${dataset("pvc-1")}@volume-source-for-volume-pvc-2`, dataset("pvc-2"));
    set(dataset("pvc-2"), {
      refquota: "1G",
      sharenfs: "rw",
      [property.volumeName]: "pvc-2",
      [property.managed]: "true",
      [property.sourceKind]: "volume",
      [property.sourceId]: "pvc-1",
      [property.context]: context,
      [property.success]: "true",
    });
    rig.fake.zfs("create", "-p", "tank/k/s/pvc-1/snapshot-2");
    set("tank/k/s/pvc-1/snapshot-2", {
      [property.snapshotName]: "snapshot-2",
      [property.snapshotVolume]: "pvc-1",
      [property.managed]: "true",
      [property.success]: "true",
    });
  };

  test("is listed with its complete volumes and CSI snapshots only", async () => {
    const rig = await open();
    written(rig);
    expect(await volumeIds(rig.open())).toEqual(["pvc-1", "pvc-2", "pvc-broken", "pvc-old"]);
    const volume = await getVolume(rig.open(), "pvc-1");
    // The server is that of the file, whatever the storage says.
    expect(volume).toMatchObject({ bytes: gib, context: { server: "nas", share: "/mnt/tank/k/v/pvc-1" } });
    expect((await getVolume(rig.open(), "pvc-2")).source).toEqual({ kind: "volume", id: "pvc-1" });
    expect((await getVolume(rig.open(), "pvc-broken")).context["server"]).toBe("nas");
    expect(await snapshotIds(rig.open())).toEqual(["pvc-1/snapshot-2", "pvc-1@snapshot-1"]);
  });

  test("is served, grown, cloned and deleted in every order that its dependents allow", async () => {
    const rig = await open();
    written(rig);
    const driver = rig.open();
    expect((await driver.create(volumeOf("pvc-1"), call)).context["share"]).toBe("/mnt/tank/k/v/pvc-1");
    expect((await driver.create(volumeOf("pvc-2", gib, from("pvc-1")), call)).id).toBe("pvc-2");
    expect(await driver.expand?.expand("pvc-1", { required: 3n * gib, limit: undefined }, call)).toMatchObject({
      bytes: 3n * gib,
    });
    await driver.create(volumeOf("restored", gib, from("pvc-1@snapshot-1")), call);
    await driver.create(volumeOf("from-copy", gib, from("pvc-1/snapshot-2")), call);
    expect(await codeOf(driver.delete("pvc-1", call))).toBe("failed-precondition");
    for (const id of ["restored", "from-copy", "pvc-2"]) await driver.delete(id, call);
    for (const id of ["pvc-1@snapshot-1", "pvc-1/snapshot-2"]) await snapshotsOf(driver).delete(id, call);
    for (const id of ["pvc-1", "pvc-old", "pvc-broken"]) await driver.delete(id, call);
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
