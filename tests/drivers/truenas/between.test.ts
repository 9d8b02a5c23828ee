import { describe, expect, test } from "bun:test";
import type { Driver, Source, Volume } from "../../../lib/drivers/driver.ts";
import { localRunner } from "../../../lib/io/local.ts";
import { localHost } from "../../../lib/io/local-host.ts";
import type { StorageHost } from "../../../lib/io/script.ts";
import { perTest } from "../../contract/per-test.ts";
import { callWith, getVolume, gib, snapshotsOf, volumeIds, volumeOf } from "../../contract/rig.ts";
import { atEachStep } from "../../contract/steps.ts";
import type { Double } from "../../fakes/truenas/double.ts";
import type { Version } from "../../fakes/truenas/versions.ts";
import { zfsOf } from "../../fakes/truenas/zfs-program.ts";
import { type FakeZfs, fakeZfs } from "../../fakes/zfs/pools.ts";
import { codeOf, copied, copyOf, copyProperties, copySource, holdsIn, targetOf } from "../zfs/copies/copy-rig.ts";
import { type Opening, openOn, type Protocol, parent, refusal, truenasRig } from "./rig.ts";
import { mortal, sshRig } from "./ssh-rig.ts";

// Copies between connections of TrueNAS: content travels by zfs(8), shares are made over the API.

const call = callWith();

/** A TrueNAS with a driver that can give and take. */
interface System {
  readonly fake: FakeZfs;
  readonly double: Double;
  open(): Driver;
  /** A driver whose process ends before or after its n-th request or script. */
  dying(step: number, when: "before" | "after"): { readonly driver: Driver; dead(): boolean };
  write(volume: Volume, text: string): Promise<void>;
  read(volume: Volume): Promise<string | undefined>;
  remains(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** A system with ZFS over ssh, or the API with `copies.sshConnection`. */
async function systemOf(...[method, protocol, version, opening]: Kind): Promise<System> {
  if (method === "ssh") return sshRig(protocol, version);
  const fake = await fakeZfs();
  const rig = await truenasRig(protocol, { version });
  const others = localRunner({ env: { PATH: `${fake.bin}:/usr/bin:/bin` } });
  const host: StorageHost = localHost(zfsOf(rig.double.state, fake, others));
  const opened: Driver[] = [];
  const open = (more: Opening) => {
    const driver = openOn(rig.double, protocol, { ...opening, ...more });
    opened.push(driver);
    return driver;
  };
  const { double } = rig;
  let mortals = 0;
  return {
    ...rig,
    fake,
    open: () => open({ host }),
    dying(step, when) {
      const key = `${++mortals + 1}-mortal`;
      double.accounts.addKey(key);
      double.faults.kill(key, step, when);
      return { driver: open({ key, host: mortal(host, double, key) }), dead: () => double.faults.killed(key) };
    },
    async close() {
      for (const driver of opened) await driver.close?.();
      await rig.close();
      await fake.close();
    },
  };
}

type Kind = readonly ["ssh" | "api", Protocol, Version, Opening?];

const opened = perTest(async (from: Kind, to: Kind) => {
  const [there, here] = [await systemOf(...from), await systemOf(...to)];
  here.fake.with(pools => {
    pools.state.next = 500_000;
  });
  const close = async () => {
    await there.close();
    await here.close();
  };
  return { there, here, a: there.open(), b: here.open(), close };
});

const pairs: readonly (readonly [Kind, Kind])[] = [
  [
    ["ssh", "nfs", "25.10"],
    ["ssh", "nfs", "26.0"],
  ],
  [
    ["ssh", "iscsi", "24.10"],
    ["ssh", "nvmeof", "25.10"],
  ],
  [
    ["api", "nfs", "24.10"],
    ["api", "nfs", "26.0"],
  ],
  [
    ["api", "iscsi", "26.0"],
    ["api", "iscsi", "25.04"],
  ],
  [
    ["api", "smb", "24.10"],
    ["api", "smb", "25.10"],
  ],
  [
    ["api", "iscsi", "25.10"],
    ["ssh", "nvmeof", "25.10"],
  ],
];

describe.each(pairs)("a copy from %p to %p", (from, to) => {
  test.each(["volume", "snapshot"] as const)(
    "of a %s is a volume with its content and a share of its own",
    async kind => {
      const { there, here, a, b } = await opened(from, to);
      const volume = await a.create(volumeOf("v"), call);
      await there.write(volume, "content");
      const taken = kind === "volume" ? undefined : await snapshotsOf(a).create("s", "v", {}, call);
      if (taken) await there.write(volume, "later");
      const before = await there.remains();
      const source: Source = { kind, id: taken?.id ?? "v" };
      const copy = await copied(a, b, copyOf("c", source, 2n * gib), source);
      expect([copy.id, copy.bytes, await here.read(copy)]).toEqual(["c", 2n * gib, "content"]);
      expect(await volumeIds(b)).toEqual(["c"]);
      const rows = (await here.remains()).length;
      const plain = await b.create(volumeOf("d", 2n * gib), call);
      expect((await here.remains()).length).toBe(2 * rows);
      const shown = (each: Volume) => JSON.stringify(each.context).replaceAll(/([":/])[cd](?:-[0-9a-f]+)?"/g, "$1");
      expect(shown(copy)).toBe(shown(plain));
      await b.delete("d", call);
      expect([holdsIn(there), copyProperties(there), copyProperties(here)]).toEqual([[], [], []]);
      expect(await there.remains()).toEqual(before);
      expect((await b.expand?.expand("c", { required: 3n * gib, limit: undefined }, call))?.bytes).toBe(3n * gib);
      await b.delete("c", call);
      if (taken) await snapshotsOf(a).delete(taken.id, call);
      await a.delete("v", call);
      expect([await there.remains(), await here.remains()]).toEqual([[], []]);
    },
  );

  test("whose source is deleted meanwhile answers ABORTED with its target, and keeps what is read", async () => {
    const { there, a } = await opened(from, to);
    const volume = await a.create(volumeOf("v"), call);
    await there.write(volume, "content");
    const { id } = await snapshotsOf(a).create("s", "v", {}, call);
    const source: Source = { kind: "snapshot", id };
    const snapshot = await copySource(a).protect(source, targetOf("c"), 0, call);
    if (from[0] === "api") {
      const refused = await refusal(snapshotsOf(a).delete(id, call));
      expect(refused).toMatchObject({ code: "aborted" });
      expect(refused.message).toContain(targetOf("c"));
    }
    expect(await refusal(a.delete("v", call))).toMatchObject({ code: "aborted" });
    await copySource(a).release(targetOf("c"), undefined, call);
    await copySource(a).protect({ kind: "volume", id: "v" }, targetOf("d"), 0, call);
    expect((await copySource(a).protectedSnapshots(call)).map(({ target }) => target)).toEqual([targetOf("d")]);
    const refused = await refusal(a.delete("v", call));
    expect(refused).toMatchObject({ code: "aborted" });
    expect(refused.message).toContain(targetOf("d"));
    expect(await there.read(volume)).toBe("content");
    expect(snapshot.name).toContain("@");
    await copySource(a).release(targetOf("d"), undefined, call);
    expect(await codeOf(snapshotsOf(a).delete(id, call))).toBe("none");
    expect(await codeOf(a.delete("v", call))).toBe("none");
    expect(await there.remains()).toEqual([]);
  });
});

/** The time limit of a test that makes a copy for each of its steps, in milliseconds. */
const longMs = 600_000;

test.each(pairs.filter((_, at) => at === 0 || at === 3))(
  "a copy from %p to %p that is interrupted at any step of its target is continued, and before its end nothing of it is listed",
  async (from, to) => {
    const { there, here, a, b } = await opened(from, to);
    await there.write(await a.create(volumeOf("v"), call), "content");
    const source: Source = { kind: "volume", id: "v" };
    const before = await there.remains();
    await atEachStep(
      (step, when) => {
        const { driver, dead } = here.dying(step, when);
        return { work: () => copied(a, driver, copyOf("c", source), source), dead };
      },
      async () => {
        for (const id of await volumeIds(b)) expect(await here.read(await getVolume(b, id))).toBe("content");
        const copy = await copied(a, b, copyOf("c", source), source);
        expect(await here.read(copy)).toBe("content");
        expect([await there.remains(), holdsIn(there)]).toEqual([before, []]);
        await b.delete("c", call);
        expect(await here.remains()).toEqual([]);
      },
    );
  },
  longMs,
);

test("a copy to a connection of the API gets permissions over the API, and no property that the API leaves to TrueNAS", async () => {
  const zfs = { datasetPermissionsMode: "0770", datasetProperties: { sharenfs: "rw", canmount: "off", atime: "off" } };
  const { here, a, b } = await opened(["ssh", "nfs", "25.10"], ["api", "nfs", "25.10", { zfs }]);
  await a.create(volumeOf("v"), call);
  const source: Source = { kind: "volume", id: "v" };
  const { id } = await copied(a, b, copyOf("c", source), source);
  const { double } = here;
  expect(double.state.datasets[`${parent}/${id}`]).toMatchObject({
    mode: 0o770,
    native: { atime: "off", canmount: "on" },
  });
  expect(double.state.datasets[`${parent}/${id}`]?.native["sharenfs"]).toBeUndefined();
  expect(double.requests.filter(({ method }) => method === "filesystem.setperm")).toHaveLength(1);
});

test("without copies.sshConnection, a driver of the API neither gives nor takes", async () => {
  const rig = await truenasRig("nfs", { version: "26.0" });
  const driver = rig.open();
  expect([driver.copySource, driver.copyTarget]).toEqual([undefined, undefined]);
  await rig.close();
});

test("disks of the API list their blocks by the login for copies, and not without it; file systems do not", async () => {
  const kinds: readonly Kind[] = [
    ["api", "iscsi", "25.10"],
    ["api", "nfs", "25.10"],
  ];
  const lists = kinds.map(async kind => {
    const system = await systemOf(...kind);
    try {
      const without = openOn(system.double, kind[1]);
      return [system.open().snapshotMetadata !== undefined, without.snapshotMetadata !== undefined];
    } finally {
      await system.close();
    }
  });
  expect(await Promise.all(lists)).toEqual([
    [true, false],
    [false, false],
  ]);
});
