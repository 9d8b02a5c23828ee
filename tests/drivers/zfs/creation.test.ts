import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { property } from "../../../lib/drivers/zfs/properties.ts";
import { codeOf } from "../../contract/driver-volumes.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, getVolume, gib, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { wholeWith } from "../../fakes/zfs/whole.ts";
import { around, dataset, from, own, withParameters, type ZfsOptions, zfsRig } from "./zfs-rig.ts";

const call = callWith();
const open = perTest((options: ZfsOptions | string = "zfs-generic-nfs") =>
  zfsRig(typeof options === "string" ? { driver: options } : options),
);

const zvols = "zfs-local-zvol";

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
      await rig.open().create(volumeOf("source"), call);
      rig.fake.faults({ unshared: true });
      for (const spec of [volumeOf("a"), volumeOf("b", gib, from("source"))]) {
        const made = rig.open().create(spec, call);
        await expect(made).rejects.toThrow("share creation failed");
        expect(await rig.remains()).toEqual([dataset("source")]);
      }
      rig.fake.faults({ unshared: false });
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
    const host = around(rig.host, async (_, run) => {
      const outputs = await run();
      if (outputs.has("make"))
        rig.fake.zfs("set", `${property.managed}=true`, `${property.volumeName}=a`, dataset("a"));
      return outputs;
    });
    expect((await rig.on(host).create(volumeOf("a"), call)).id).toBe("a");
  });

  test.each(["zfs-generic-nfs", zvols])(
    "of %s that its host reports as made, but that does not exist, is unavailable",
    async driverName => {
      const rig = await open(driverName);
      rig.fake.zfs("create", "-p", "tank/k/v");
      const host = around(rig.host, (script, run) => {
        const { steps, ...others } = script;
        const [first, ...rest] = steps;
        if (first.name !== "make") return run();
        return run(wholeWith(script, "make", ":") ?? { ...others, steps: [{ ...first, argv: ["true"] }, ...rest] });
      });
      const made = rig.on(host).create(volumeOf("a"), call);
      expect(await codeOf(made)).toBe("unavailable");
      await expect(made).rejects.toThrow("does not exist");
      await rig.open().create(volumeOf("b"), call);
      expect(await codeOf(snapshotsOf(rig.on(host)).create("s", "b", {}, call))).toBe("unavailable");
    },
  );

  test("whose parent another process is making is aborted, not reported as missing", async () => {
    const rig = await open();
    const host = around(rig.host, async (_, run) => {
      const outputs = await run();
      const stderr = "cannot create 'tank/k/v/a': parent does not exist";
      return outputs.has("make") ? new Map([...outputs, ["make", { exitCode: 1, stdout: "", stderr }]]) : outputs;
    });
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

test.each(["volume", "snapshot"] as const)(
  "a zvol made of a %s has whole blocks of that, also where the blocks of its class are smaller",
  async kind => {
    const rig = await open(zvols);
    const driver = rig.open();
    await driver.create(withParameters(volumeOf("source"), { "zfs.volblocksize": "64K" }), call);
    const id = kind === "volume" ? "source" : (await snapshotsOf(driver).create("s", "source", {}, call)).id;
    for (const [name, parameters] of [
      ["clone", {}],
      ["copy", { detachedVolumesFromVolumes: "true", detachedVolumesFromSnapshots: "true" }],
    ] as const) {
      const asked = { ...volumeOf(name, gib, { kind, id }), range: { required: 2n * gib + 1n, limit: undefined } };
      const spec = withParameters(asked, parameters);
      for (const _ of ["the first request", "its repeat"])
        expect((await driver.create(spec, call)).bytes).toBe(2n * gib + 65_536n);
      expect(own(rig, dataset(name), "volsize")).toBe(String(2n * gib + 65_536n));
    }
  },
);

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

test("the undo of a failed creation leaves a volume that another controller has completed meanwhile", async () => {
  const rig = await open({ driver: "zfs-generic-iscsi" });
  let completed = false;
  const host = around(rig.host, async ({ steps }, run) => {
    if (completed || !steps.some(({ argv }) => argv.includes("python3"))) return run();
    completed = true;
    rig.fake.zfs("set", "democratic-csi:provision_success=true", dataset("a"));
    throw new Error("an unknown failure");
  });
  expect(await codeOf(rig.on(host).create(volumeOf("a"), call))).not.toBe("ok");
  expect(completed).toBe(true);
  expect((await rig.open().reading?.get("a", call))?.id).toBe("a");
});
