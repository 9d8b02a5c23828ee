import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type CopyRecord, readRecord, writeRecord } from "../../../../lib/copies/record.ts";
import { copyByStream } from "../../../../lib/copies/zfs-send.ts";
import type { Driver } from "../../../../lib/drivers/driver.ts";
import { copyLife } from "../../../contract/copies/life.ts";
import type { StreamEndRig } from "../../../contract/copies/stream-world.ts";
import { gib, volumeOf } from "../../../contract/rig.ts";
import { asked, copyProcess, copyRequest, until } from "../../../copy/copy-world.ts";
import { commanded } from "../../../copy/pair.ts";
import { testCall } from "../../../fakes/memory-driver.ts";
import { type FakeZfs, fakeZfs } from "../../../fakes/zfs/pools.ts";
import { failure } from "../../../mux/world.ts";
import { zfsEnd } from "./pair-rig.ts";

// Host T, the target of a copy, has another administrator: what it says of the copy must not choose what host S, the source, sends.

const call = testCall();
const content = "the content of mine";
const secret = "PRIVATE DATA OF HOST S";

let s: FakeZfs;
let t: FakeZfs;
let from: StreamEndRig;
let to: StreamEndRig;
beforeEach(async () => {
  s = await fakeZfs();
  t = await fakeZfs();
  t.with(pools => {
    pools.state.next = 500_000;
  });
  from = zfsEnd("source", s, "tank/k", { driver: "zfs-generic-nfs", ssh: "one" });
  to = zfsEnd("target", t, "tank/k", { driver: "zfs-generic-nfs", ssh: "two" });
  const driver = from.open();
  for (const id of ["mine", "victim"]) {
    await driver.create(volumeOf(id, gib), call);
    await from.write(id, id === "mine" ? content : secret);
  }
  s.zfs("create", "tank/private");
  mkdirSync(s.place("tank/private"), { recursive: true });
  writeFileSync(join(s.place("tank/private"), "content"), secret);
  s.zfs("snapshot", "tank/private@daily");
});
afterEach(async () => {
  await s.close();
  await t.close();
});

/** `change`: what T makes of each answer about the landing. */
const opened = (change: (driver: Driver) => Driver = driver => driver) =>
  copyProcess({
    drivers: new Map([
      ["a", () => from.openIn(copyLife())],
      ["b", () => change(to.openIn(copyLife()))],
    ]),
    stream: copyByStream,
    times: { answerWithin: 300 },
  });

type Process = ReturnType<typeof opened>;

const make = (process: Process) =>
  process.volumes.create(copyRequest("copy", "b", "v:a/mine", { range: { required: gib, limit: undefined } }), call);

/** What the root of T writes into the record. */
async function written(change: (record: CopyRecord) => Partial<CopyRecord>): Promise<void> {
  const copyTarget = to.open().copyTarget;
  const record = readRecord((await copyTarget?.find("copy", call))?.record ?? "", "test");
  await copyTarget?.note("copy", writeRecord({ ...record, holder: "", ...change(record) }), call);
}

const guidOf = (name: string): string => {
  const [, guid = ""] = /guid\s+(\d+)/.exec(s.zfs("get", "-Hp", "-o", "property,value", "guid", name)) ?? [];
  return guid;
};

const daily = () => ({ name: "tank/private@daily", proof: guidOf("tank/private@daily") });

/** Nothing but the source and its snapshots was sent or taken. */
async function onlyMine(): Promise<void> {
  const lines = s.commands().filter(line => /^zfs (send|snapshot|hold)/.test(line));
  expect(lines.filter(line => !line.includes("tank/k/v/mine@") && !/ -t /.test(line))).toEqual([]);
  for (const id of ["copy", "csimux-land-copy"])
    if (t.find(`tank/k/v/${id}`)) expect(await to.read(id)).not.toContain(secret);
}

describe("a claim's copy", () => {
  test("is refused when T has written another snapshot into its record, and made with the next request", async () => {
    t.faults({ cutReceive: 3_000 });
    const one = opened();
    await failure(make(one));
    await one.stop(1_000);
    t.faults({ cutReceive: undefined });
    await written(({ snapshot }) => ({ snapshot: { ...snapshot, ...daily() } }));
    s.commands();
    const two = opened();
    const refused = await failure(asked(() => make(two)));
    expect(refused?.code).toBe("failed-precondition");
    expect(refused?.message).toMatch(/"tank\/private@daily".*v:a\/mine.*"tank\/k\/v\/mine@csimux-copy-[a-z2-7]{16}-0"/);
    await onlyMine();
    await asked(() => make(two));
    expect(await to.read("copy")).toBe(content);
    await onlyMine();
    await two.stop(1_000);
  });

  test("is refused when T writes that before csimux has read back what it wrote", async () => {
    let left = 1;
    const one = opened(driver => {
      const { copyTarget } = driver;
      if (!copyTarget) return driver;
      const begin: typeof copyTarget.begin = async (...all) => {
        const landing = await copyTarget.begin(...all);
        if (left-- <= 0) return landing;
        await written(({ snapshot }) => ({ snapshot: { ...snapshot, ...daily() } }));
        return (await copyTarget.find(landing.id, call)) ?? landing;
      };
      return { ...driver, copyTarget: { ...copyTarget, begin } };
    });
    s.commands();
    expect((await failure(asked(() => make(one))))?.code).toBe("failed-precondition");
    await onlyMine();
    await asked(() => make(one));
    expect(await to.read("copy")).toBe(content);
    await one.stop(1_000);
  });

  test("starts again when T gives a resume token of another snapshot and says that it is of this one", async () => {
    t.faults({ cutReceive: 3_000 });
    const first = opened();
    const isPartial = async () => (await to.open().copyTarget?.stream?.state("copy", call))?.kind === "partial";
    await until(async () => (await failure(make(first))) === undefined || (await isPartial()));
    await first.stop(1_000);
    t.faults({ cutReceive: undefined });
    const forged = `1-${Buffer.from(JSON.stringify({ guid: daily().proof, toname: daily().name, type: "filesystem", large: true, compressed: true, resumed: false, bytes: 1, properties: {} })).toString("base64url")}`;
    let given = 0;
    const one = opened(driver => {
      const { copyTarget } = driver;
      const stream = copyTarget?.stream;
      if (!copyTarget || !stream) return driver;
      const state: typeof stream.state = async (id, each) => {
        const real = await stream.state(id, each);
        if (real.kind !== "partial" || given++ > 0) return real;
        return { ...real, token: forged };
      };
      return { ...driver, copyTarget: { ...copyTarget, stream: { ...stream, state } } };
    });
    s.commands();
    await asked(() => make(one));
    expect(given).toBeGreaterThan(0);
    expect(
      s.commands().filter(line => line.startsWith("zfs send") && line.includes(forged) && !line.includes("-n")),
    ).toEqual([]);
    expect(await to.read("copy")).toBe(content);
    await one.stop(1_000);
  });

  test("of a source that is encrypted meanwhile is not continued in plain", async () => {
    t.faults({ cutReceive: 3_000 });
    const one = opened();
    await failure(make(one));
    await one.stop(1_000);
    t.faults({ cutReceive: undefined });
    s.with(pools => {
      const mine = pools.find("tank/k/v/mine");
      if (mine) mine.own["encryption"] = { value: "aes-256-gcm", source: "local" };
    });
    s.commands();
    const two = opened();
    const refused = await failure(asked(() => make(two)));
    expect(refused?.code).toBe("failed-precondition");
    expect(refused?.message).toContain("the source is encrypted, and the new volume would not be");
    expect(s.commands().filter(line => /^zfs send (?!-n)/.test(line))).toEqual([]);
    await two.stop(1_000);
  });
});

test("only the snapshot of the pass before is a base", async () => {
  const { copySource } = from.open();
  const snapshot = await copySource?.protect({ kind: "volume", id: "mine" }, "v:b/copy", 0, call);
  if (!snapshot) throw new Error("there is no snapshot");
  const later = { ...snapshot, name: snapshot.name.replace(/-0$/, "-2") };
  for (const [of, name] of [
    [later, "tank/private@daily"],
    [later, snapshot.name],
    [snapshot, snapshot.name],
  ] as const)
    expect(() => copySource?.stream?.open(of, { kind: "since", snapshot: { name, proof: "1" } }, false)).toThrow(
      "that is not the snapshot of the pass before",
    );
});

const begin = {
  ...({ command: "begin", source: "v:a/mine", name: "copy", bytes: gib } as const),
  ...{ parameters: { connection: "b" }, capabilities: [], mutable: {} },
};
const pass = { command: "pass", target: "v:b/copy" } as const;

const swaps: readonly (readonly [string, (record: CopyRecord) => Partial<CopyRecord>])[] = [
  ["another snapshot", ({ snapshot }) => ({ snapshot: { ...snapshot, ...daily() } })],
  ["another source", () => ({ origin: { kind: "volume", handle: "v:a/victim" } })],
  ["another source, and no base", () => ({ origin: { kind: "volume", handle: "v:a/victim" }, earlier: undefined })],
];

describe.each(["first", "second"])("a move in its %s pass", which => {
  test.each(swaps)("is refused when T has written %s into its record", async (_, swap) => {
    const one = opened();
    await commanded(one, begin);
    if (which === "second") await commanded(one, pass);
    const honest = readRecord((await to.open().copyTarget?.find("copy", call))?.record ?? "", "test");
    await written(swap);
    s.commands();
    const refused = await failure(commanded(one, pass));
    expect(refused?.code).toBe("failed-precondition");
    expect(refused?.message).toContain("nothing was read");
    await onlyMine();
    await written(() => honest);
    await from.write("mine", `${content}, later`);
    await commanded(one, pass);
    if (which === "first") await commanded(one, pass);
    await commanded(one, { command: "finish", target: "v:b/copy" });
    expect(await to.read("copy")).toBe(`${content}, later`);
    await onlyMine();
    await one.stop(1_000);
  });
});
