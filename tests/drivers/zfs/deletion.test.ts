import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Call } from "../../../lib/core/call.ts";
import type { VolumeSpec } from "../../../lib/drivers/driver.ts";
import type { StorageHost } from "../../../lib/io/script.ts";
import { codeOf, messageOf } from "../../contract/driver-volumes.ts";
import { used } from "../../contract/needs.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, gib, volumeOf } from "../../contract/rig.ts";
import { atEachStep } from "../../contract/steps.ts";
import { nfsActive, nfsCache, nfsClients } from "../../fakes/zfs/nfsd.ts";
import { around, dataset, from, type ZfsOptions, type ZfsRig, zfsRig } from "./zfs-rig.ts";

const call = callWith();
const open = perTest((options: ZfsOptions | string = "zfs-generic-nfs") =>
  zfsRig(typeof options === "string" ? { driver: options } : options),
);

const copyOf = (id: string, source: string): VolumeSpec => ({
  ...volumeOf(id, gib, from(source)),
  parameters: { detachedVolumesFromVolumes: "true" },
});
/** A volume "a" with content and a snapshot of another program. */
async function withForeign(options?: ZfsOptions | string, given?: ZfsRig): Promise<ZfsRig> {
  const rig = given ?? (await open(options));
  await rig.write(await rig.open().create(volumeOf("a"), call), "content");
  rig.fake.zfs("snapshot", `${dataset("a")}@nightly-backup`);
  return rig;
}

const usershares = ({ fake: { folder } }: ZfsRig): readonly string[] =>
  existsSync(join(folder, "usershares")) ? readdirSync(join(folder, "usershares")) : [];

/** All that a refused deletion must leave as it was. */
const stateOf = (rig: ZfsRig): object => ({
  volume: structuredClone(rig.fake.find(dataset("a"))),
  snapshot: rig.fake.find(`${dataset("a")}@nightly-backup`) !== undefined,
  usershares: usershares(rig),
});

const disturbed = (rig: ZfsRig): readonly string[] => rig.fake.with(pools => pools.state.disturbed);

/** A host on which something happens before the step that destroys. */
const meanwhile = (host: StorageHost, happens: () => void): StorageHost =>
  around(host, ({ steps }, run) => {
    if (steps.some(({ name }) => name === "destroy")) happens();
    return run();
  });

const nfs = ["zfs-generic-nfs"];
const both = [...nfs, "zfs-generic-smb"];

/** Cases that wait until a volume counts as busy, together with those next to them: each has a rig of its own. */
const waiting = (title: string, drivers: readonly string[], run: (rig: ZfsRig) => Promise<void>): void =>
  test.concurrent.each(drivers)(title, driver => used(() => zfsRig({ driver }), run), 60_000);

describe("a deletion that is refused changes nothing", () => {
  test("while the server keeps the open files of a vanished client: the message says how to end that", async () => {
    const rig = await withForeign();
    nfsClients(rig.fake.folder, [{ id: 7, open: [rig.fake.place(dataset("a"))], status: "courtesy" }]);
    const message = await messageOf(rig.open().delete("a", call));
    expect(message).toContain("silent for 230 s (if it is gone for good: echo expire > /proc/fs/nfsd/clients/7/ctl)");
  });

  waiting(
    "while an NFS client of %s holds a file open: it is named, and the share never disappears",
    nfs,
    async rig => {
      await withForeign(undefined, rig);
      const { folder } = rig.fake;
      nfsCache(folder, [rig.fake.place(dataset("a"))]);
      nfsClients(folder, [{ id: 3, open: [rig.fake.place(dataset("a"))] }]);
      const before = stateOf(rig);
      expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
      const message = await messageOf(rig.open().delete("a", call));
      expect(message).toContain('"Linux NFSv4.2 node-3" at "10.0.0.3:975"');
      expect(message).not.toContain("expire");
      expect([stateOf(rig), disturbed(rig)]).toEqual([before, []]);
      nfsClients(folder, []);
      await rig.open().delete("a", call);
      expect(await rig.remains()).toEqual([]);
    },
  );

  waiting("while a client without open files is active, with %s", nfs, async rig => {
    await withForeign(undefined, rig);
    nfsActive(rig.fake.folder, [rig.fake.place(dataset("a"))]);
    const before = stateOf(rig);
    expect(await codeOf(rig.open().delete("a", call))).toBe("aborted");
    expect([stateOf(rig), disturbed(rig)]).toEqual([before, []]);
  });

  waiting("while a process of its host uses it, with %s; afterwards it succeeds", both, async rig => {
    await withForeign(undefined, rig);
    rig.fake.faults({ busy: { [dataset("a")]: 99 } });
    const before = stateOf(rig);
    expect(await codeOf(rig.open().delete("a", call))).toBe("aborted");
    expect(stateOf(rig)).toEqual(before);
    rig.fake.faults({ busy: undefined });
    await rig.open().delete("a", call);
    expect([await rig.remains(), usershares(rig)]).toEqual([[], []]);
  });

  waiting("where it cannot be destroyed after it was unmounted, with %s", both, async rig => {
    await rig.write(await rig.open().create(volumeOf("a"), call), "content");
    rig.fake.faults({ owned: { [dataset("a")]: 99 } });
    const before = stateOf(rig);
    expect(await codeOf(rig.open().delete("a", call))).toBe("aborted");
    expect(stateOf(rig)).toEqual(before);
    expect(rig.fake.find(dataset("a"))).toMatchObject({ mounted: true, shared: true });
  });

  waiting("where only its snapshots are gone meanwhile and it is busy, with %s", nfs, async rig => {
    await withForeign(undefined, rig);
    const happens = () => {
      if (rig.fake.find(`${dataset("a")}@nightly-backup`)) rig.fake.zfs("destroy", `${dataset("a")}@nightly-backup`);
      rig.fake.faults({ owned: { [dataset("a")]: 99 } });
    };
    expect(await codeOf(rig.on(meanwhile(rig.host, happens)).delete("a", call))).toBe("aborted");
    expect(rig.fake.find(dataset("a"))).toBeDefined();
  });

  test.each(["zfs-generic-nfs", "zfs-generic-smb", "zfs-local-zvol"])(
    "where one of its snapshots is held at the last moment, with %s: no other is destroyed",
    async driverName => {
      const rig = await withForeign(driverName);
      rig.fake.zfs("snapshot", `${dataset("a")}@weekly`);
      const before = stateOf(rig);
      const hold = () => rig.fake.zfs("hold", "backup", `${dataset("a")}@weekly`);
      expect(await codeOf(rig.on(meanwhile(rig.host, hold)).delete("a", call))).toBe("failed-precondition");
      expect(stateOf(rig)).toEqual(before);
      expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
      expect(await messageOf(rig.open().delete("a", call))).toContain("weekly");
      expect(stateOf(rig)).toEqual(before);
    },
  );

  test("while its node has mounted it", async () => {
    const rig = await withForeign("zfs-local-dataset");
    rig.fake.zfs("set", "mountpoint=legacy", dataset("a"));
    rig.fake.with(pools => {
      const thing = pools.find(dataset("a"));
      if (thing) thing.mounted = true;
    });
    expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
    expect(rig.fake.find(`${dataset("a")}@nightly-backup`)).toBeDefined();
  });
});

describe("a deletion", () => {
  test("of a file system that clients have used recently flushes the server's cache first, while it is still exported", async () => {
    const rig = await withForeign();
    nfsCache(rig.fake.folder, [rig.fake.place(dataset("a"))]);
    const exported: unknown[] = [];
    const host = around(rig.host, ({ steps }, run) => {
      if (steps.some(({ name }) => name === "flush")) exported.push(rig.fake.find(dataset("a"))?.shared);
      return run();
    });
    await rig.on(host).delete("a", call);
    expect(exported).toEqual([true]);
    expect([await rig.remains(), disturbed(rig)]).toEqual([[], []]);
  });

  test("succeeds when another process deletes the volume meanwhile", async () => {
    const rig = await open();
    await rig.open().create(volumeOf("a"), call);
    await rig.on(meanwhile(rig.host, () => rig.fake.zfs("destroy", dataset("a")))).delete("a", call);
    expect(await rig.remains()).toEqual([]);
  });

  test("destroys snapshots of other programs with the volume, and the log names them", async () => {
    const rig = await withForeign();
    const lines: unknown[] = [];
    const log: Call["log"] = {
      ...call.log,
      warn: (message, fields) => void lines.push([message, fields]),
      with: () => log,
    };
    await rig.open().delete("a", { ...call, log });
    expect(lines).toEqual([
      [
        "snapshots that csimux did not take are destroyed with their volume",
        { volume: "a", dataset: dataset("a"), snapshots: "nightly-backup" },
      ],
    ]);
    expect(await rig.remains()).toEqual([]);
  });

  test.each(["zfs-generic-nfs", "zfs-local-zvol"])(
    "is refused for them with foreignSnapshots: keep, and names them, with %s",
    async driver => {
      const rig = await withForeign({ driver, zfs: { foreignSnapshots: "keep" } });
      const before = stateOf(rig);
      expect(await codeOf(rig.open().delete("a", call))).toBe("failed-precondition");
      expect(await messageOf(rig.open().delete("a", call))).toContain("nightly-backup");
      expect(stateOf(rig)).toEqual(before);
      rig.fake.zfs("destroy", `${dataset("a")}@nightly-backup`);
      await rig.open().delete("a", call);
      expect(await rig.remains()).toEqual([]);
    },
  );

  test.each(both)(
    "that is interrupted anywhere leaves a complete and shared volume of %s, or nothing; its repeat leaves nothing",
    async driverName => {
      const rig = await withForeign(driverName);
      const whole = stateOf(rig) as { volume: object };
      await atEachStep(
        (step, when) => {
          const { driver, dead } = rig.dying(step, when);
          return { work: () => driver.delete("a", call), dead };
        },
        async step => {
          const { guid, txg, creation, ...now } = rig.fake.find(dataset("a")) ?? { guid: "", txg: 0, creation: 0 };
          if (rig.fake.find(dataset("a")))
            expect([step, { ...stateOf(rig), volume: { ...now, guid, txg, creation } }]).toMatchObject([
              step,
              { ...whole, volume: { mounted: true, shared: true } },
            ]);
          await rig.open().delete("a", call);
          expect([step, await rig.remains(), usershares(rig)]).toEqual([step, [], []]);
          await rig.open().create(volumeOf("a"), call);
          rig.fake.zfs("snapshot", `${dataset("a")}@nightly-backup`);
        },
      );
    },
  );
});

describe("an existing volume", () => {
  test.each(both)("is shared again when it is requested again, with %s", async driverName => {
    const rig = await open(driverName);
    const made = await rig.open().create(volumeOf("a"), call);
    rig.fake.zfs("unmount", dataset("a"));
    expect(await rig.open().create(volumeOf("a"), call)).toEqual(made);
    expect(rig.fake.find(dataset("a"))).toMatchObject({ mounted: true, shared: true });
  });

  test("is not reported as made while its sharing is switched off", async () => {
    const rig = await open();
    await rig.open().create(volumeOf("a"), call);
    rig.fake.zfs("set", "sharenfs=off", dataset("a"));
    expect(await codeOf(rig.open().create(volumeOf("a"), call))).toBe("unavailable");
    expect(await messageOf(rig.open().create(volumeOf("a"), call))).toContain("set its sharenfs");
    expect(rig.fake.find(dataset("a"))).toBeDefined();
  });
});

describe("a copy that fails", () => {
  /** A copy "b" of "a" that was cut. */
  async function cut(): Promise<ZfsRig> {
    const rig = await open();
    await rig.write(await rig.open().create(volumeOf("a"), call), "old");
    rig.fake.faults({ cutReceive: 100 });
    expect(await codeOf(rig.open().create(copyOf("b", "a"), call))).not.toBe("ok");
    rig.fake.faults({ cutReceive: undefined });
    return rig;
  }

  test("and is deleted instead of repeated leaves no snapshot of its source", async () => {
    const rig = await cut();
    await rig.open().delete("b", call);
    expect(await rig.remains()).toEqual([dataset("a")]);
    await rig.open().delete("a", call);
    expect(await rig.remains()).toEqual([]);
  });

  test("leaves no snapshot of its source, wherever its creation was interrupted", async () => {
    const rig = await open();
    await rig.write(await rig.open().create(volumeOf("a"), call), "old");
    await atEachStep(
      (step, when) => {
        const { driver, dead } = rig.dying(step, when);
        return { work: () => driver.create(copyOf("b", "a"), call), dead };
      },
      async step => {
        await rig.open().delete("b", call);
        expect([step, await rig.remains()]).toEqual([step, [dataset("a")]]);
      },
    );
  });

  test("does not pass its old content on to a later volume of this name", async () => {
    const rig = await open();
    const source = await rig.open().create(volumeOf("a"), call);
    await rig.write(source, "old");
    rig.fake.zfs("snapshot", `${dataset("a")}@volume-source-for-volume-b`);
    await rig.write(source, "new");
    expect(await rig.read(await rig.open().create(copyOf("b", "a"), call))).toBe("new");
  });
});
