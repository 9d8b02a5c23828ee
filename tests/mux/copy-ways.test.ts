import { describe, expect, test } from "bun:test";
import { copyMethods, knownEnds, onlyPossible } from "../../lib/copies/matrix.ts";
import { usualCopies } from "../../lib/core/proxy.ts";
import { Connections } from "../../lib/mux/connections.ts";
import { copyProcess } from "../copy/copy-world.ts";
import { CopyStorage, copyDriver } from "../fakes/memory-copies.ts";
import { MemoryDriver, testCall } from "../fakes/memory-driver.ts";

const stream = { volumes: ["zfs-send"], snapshots: ["zfs-send"] };
const plain = { driverName: "memory", family: "memory", accessibleTopology: [], labels: {}, suspended: false };

/** A process over storages in memory that can copy, and one that cannot; c takes from a only. */
function world(settings = {}) {
  const drivers = new Map([
    ...["a", "b", "c"].map(name => [name, () => copyDriver(new CopyStorage(), name)] as const),
    ["no", () => new MemoryDriver().driver()],
  ]);
  const traits: Parameters<typeof copyProcess>[0]["traits"] = {
    c: { copies: { from: { kind: "members", members: ["a"] }, to: undefined, allowPlain: false, dropAcls: false } },
  };
  return copyProcess({ drivers, settings, traits });
}

describe("the methods that a process knows", () => {
  test("are those of the files that it has read, without what cannot be copied", async () => {
    const one = world();
    expect(one.copies.matrix()).toBeUndefined();
    await one.connections.survey();
    expect(one.copies.matrix()).toMatchObject({
      rows: [
        { from: ["a"], targets: [{ to: ["b", "c"], eachOther: false, ...stream }] },
        { from: ["b"], targets: [{ to: ["a"], eachOther: false, ...stream }] },
        { from: ["c"], targets: [{ to: ["a", "b"], eachOther: false, ...stream }] },
      ],
      ...{ omitted: [], notSources: ["no"], notTargets: ["no"] },
    });
    expect(JSON.stringify(one.copies.matrix())).not.toContain('"why"');
    await one.stop(1_000);
  });

  test("are none where copies are switched off", async () => {
    const one = world({ enabled: false });
    await one.connections.survey();
    expect(one.connections.seen()).toHaveLength(4);
    expect(one.copies.matrix()).toBeUndefined();
    await one.stop(1_000);
  });

  test("are those of the last valid file, also while its driver is closed, and end with the file", async () => {
    const texts = new Map([
      ["a", "good"],
      ["b", "good"],
    ]);
    let opened = 0;
    const open = (name: string, text: string) => {
      if (text !== "good") throw new Error("not opened");
      opened++;
      const driver = copyDriver(new CopyStorage(), name);
      return { name, ...plain, retain: false, driver, access: driver.access };
    };
    const files = {
      names: async () => [...texts.keys()],
      read: async (name: string) => texts.get(name),
      labels: async () => undefined,
    };
    const { log } = testCall();
    const none = { kind: "none" } as const;
    const connections = new Connections(
      files,
      async () => open,
      () => files,
      none,
      log,
    );
    await connections.survey();
    const known = () => knownEnds(connections.seen());
    expect(connections.seen().map(each => each.open)).toEqual([undefined, undefined]);
    expect(known().map(each => [each.name, each.copySource?.stream?.machine])).toEqual([
      ["a", "a"],
      ["b", "b"],
    ]);
    expect(copyMethods(known(), usualCopies, 5).rows).toMatchObject([{ from: ["a"] }, { from: ["b"] }]);
    expect(opened).toBe(2);
    texts.delete("b");
    await connections.survey();
    expect(known().map(({ name }) => name)).toEqual(["a"]);
    expect(opened).toBe(2);
  });
});

test("what cannot be copied, and a source with nothing else, is left out", () => {
  const reach = { eachOther: false, volumes: ["rsync"], snapshots: ["rsync", "restore"] } as const;
  const refused = { eachOther: false, volumes: [], snapshots: [], because: "content", why: "files and disks" } as const;
  const possible = { from: ["a"], targets: [{ to: ["b"], ...reach }] };
  const rest = { omitted: ["z"], notSources: [], notTargets: [] };
  const rows = [
    { from: ["a"], targets: [...possible.targets, { to: ["c"], ...refused }] },
    { from: ["c"], targets: [{ to: ["a"], ...refused }] },
  ];
  expect(onlyPossible({ rows, ...rest })).toEqual({ rows: [possible], ...rest });
});
