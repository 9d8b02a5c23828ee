import { expect, test } from "bun:test";
import { disk } from "../../lib/core/access.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { codeOf, failure, muxWorld, request, snapshotOf } from "./world.ts";

const call = testCall();
const zone = (name: string) => ({ "t.example/zone": name });
const at = (name: string) => ({ requirements: zone(name), extra: {} });

test("topology is decided before anything is created", async () => {
  const world = muxWorld(["c"]);
  world.traits.set("c", { accessibleTopology: [at("z1")] });
  const elsewhere = request("v", "c", { accessibility: { requisite: [zone("z2")], preferred: [] } });
  const refusal = await failure(world.volumes.create(elsewhere, call));
  expect(refusal?.code).toBe("resource-exhausted");
  expect(refusal?.message).toStartWith('connection "c": ');
  expect(world.memory("c").volumes.size).toBe(0);
  const here = request("v", "c", { accessibility: { requisite: [zone("z2"), zone("z1")], preferred: [] } });
  expect(await world.volumes.create(here, call)).toMatchObject({ id: "v:c/v", accessibleTopology: [zone("z1")] });
});

test("an existing volume that the request cannot reach is ALREADY_EXISTS, so that no other node is tried", async () => {
  const world = muxWorld(["c"]);
  world.traits.set("c", { accessibleTopology: [at("z1")] });
  await world.volumes.create(request("v", "c"), call);
  const elsewhere = request("v", "c", { accessibility: { requisite: [zone("z2")], preferred: [] } });
  expect(await codeOf(world.volumes.create(elsewhere, call))).toBe("already-exists");
});

test("a preference refuses new volumes only; an existing one that meets the requirements is returned", async () => {
  const world = muxWorld(["c"]);
  world.traits.set("c", { accessibleTopology: [at("z1")] });
  world.settings.policy = { ...world.settings.policy, honourPreferred: "first" };
  const preferring = (name: string) => ({
    accessibility: { requisite: [zone("z1"), zone("z2")], preferred: [zone(name)] },
  });
  const create = (name: string) => world.volumes.create(request("v", "c", preferring(name)), call);
  expect(await codeOf(create("z2"))).toBe("resource-exhausted");
  expect((await create("z1")).id).toBe("v:c/v");
  expect(await create("z2")).toMatchObject({ id: "v:c/v", accessibleTopology: [zone("z1")] });
});

test("options for mkfs are judged before anything is created, and nodes get them with the volume's context", async () => {
  const world = muxWorld(["c"]);
  world.traits.set("c", { access: disk });
  const options = (mkfsOptions: string) => request("v", "c", { parameters: { connection: "c", mkfsOptions } });
  expect(await codeOf(world.volumes.create(options("-F -m 1"), call))).toBe("invalid-argument");
  expect(world.memory("c").volumes.size).toBe(0);
  for (const _ of ["first", "repeated"])
    expect((await world.volumes.create(options("-m 1"), call)).context).toMatchObject({ mkfsOptions: "-m 1" });
});

test("a class with nameTemplate names volumes after their claims, and a repeated request finds its volume", async () => {
  const world = muxWorld(["c"]);
  const parameters = { connection: "c", nameTemplate: "{{ parameters.claim }}", claim: "data" };
  const create = (name: string) => world.volumes.create(request(name, "c", { parameters }), call);
  const { id } = await create("pvc-1");
  expect(id).toMatch(/^v:c\/data-[0-9a-f]{20}$/);
  expect((await create("pvc-1")).id).toBe(id);
  expect((await create("pvc-2")).id).not.toBe(id);
  expect(world.memory("c").volumes.size).toBe(2);
  const wrong = request("pvc-3", "c", { parameters: { ...parameters, nameTemplate: "{{ claim" } });
  expect(await codeOf(world.volumes.create(wrong, call))).toBe("invalid-argument");
  expect(world.memory("c").volumes.size).toBe(2);
});

test("a suspended connection refuses new volumes only", async () => {
  const world = muxWorld(["c"]);
  await world.volumes.create(request("old", "c"), call);
  world.traits.set("c", { suspended: true });
  expect(await codeOf(world.volumes.create(request("new", "c"), call))).toBe("resource-exhausted");
  expect((await world.volumes.create(request("old", "c"), call)).id).toBe("v:c/old");
  expect((await world.snapshots.create(snapshotOf("s", "v:c/old"), call)).id).toBe("s:c/s");
  await world.snapshots.delete("s:c/s", call);
  await world.volumes.delete("v:c/old", call);
  expect(world.memory("c").volumes.size).toBe(0);
});

test("deleteStrategy retain succeeds and leaves the volume", async () => {
  const world = muxWorld(["c"]);
  world.traits.set("c", { retain: true });
  await world.volumes.create(request("v", "c"), call);
  await world.volumes.delete("v:c/v", call);
  expect(world.memory("c").volumes.has("v")).toBe(true);
});

test("a volume is not deleted while it is being copied", async () => {
  const world = muxWorld(["c"]);
  await world.volumes.create(request("v", "c"), call);
  const gate = Promise.withResolvers<void>();
  world.memory("c").gate = gate.promise;
  const copy = (name: string) =>
    world.volumes.create(request(name, "c", { source: { kind: "volume", id: "v:c/v" } }), call);
  const clones = [copy("a"), copy("b")];
  await Bun.sleep(0);
  expect(await codeOf(world.volumes.delete("v:c/v", call))).toBe("aborted");
  gate.resolve();
  expect((await Promise.all(clones)).map(clone => clone.source)).toEqual([
    { kind: "volume", id: "v:c/v" },
    { kind: "volume", id: "v:c/v" },
  ]);
  await world.volumes.delete("v:c/v", call);
});

test("ids without a prefix belong to the legacy connection if there is one", async () => {
  const world = muxWorld(["old"]);
  await world.volumes.create(request("pvc-1", "old"), call);
  expect(await codeOf(world.volumes.get("pvc-1", call))).toBe("not-found");
  world.settings.legacyConnection = "old";
  expect((await world.volumes.get("pvc-1", call)).id).toBe("v:old/pvc-1");
  await world.volumes.delete("pvc-1", call);
  expect(world.memory("old").volumes.size).toBe(0);
});

test("impossible ranges and capabilities are refused before the connection is asked", async () => {
  const world = muxWorld(["c"]);
  const create = (more: object) => failure(world.volumes.create(request("v", "c", more), call));
  expect((await create({ range: { required: 10737418240n, limit: 9663676416n } }))?.code).toBe("out-of-range");
  expect((await create({ range: { required: -1n, limit: undefined } }))?.code).toBe("out-of-range");
  const block = { kind: "block", fsType: undefined, mountFlags: [], mountGroup: undefined, mode: "single-node-writer" };
  expect((await create({ capabilities: [block] }))?.code).toBe("invalid-argument");
  expect(world.memory("c").volumes.size).toBe(0);
});

test("a snapshot class may name only the volume's connection or a group with it", async () => {
  const world = muxWorld(["a", "b"]);
  world.groups.set("g", { from: { kind: "members", members: ["a"] }, policy: "ordered" });
  for (const name of ["a", "b"]) await world.volumes.create(request("v", name), call);
  const snapshot = (name: string, volume: string, connection: string) =>
    failure(world.snapshots.create({ ...snapshotOf(name, volume), parameters: { connection } }, call));
  expect(await snapshot("s1", "v:a/v", "a")).toBeUndefined();
  expect(await snapshot("s2", "v:a/v", "g")).toBeUndefined();
  expect((await snapshot("s3", "v:b/v", "g"))?.code).toBe("invalid-argument");
  expect((await snapshot("s4", "v:b/v", "a"))?.code).toBe("invalid-argument");
});

test("a retry joins the running call even if its parameters come in another order", async () => {
  const world = muxWorld(["c"]);
  const gate = Promise.withResolvers<void>();
  world.memory("c").gate = gate.promise;
  const create = (parameters: Record<string, string>) => world.volumes.create(request("v", "c", { parameters }), call);
  const both = [create({ connection: "c", a: "1", b: "2" }), create({ b: "2", a: "1", connection: "c" })];
  const other = failure(create({ connection: "c", a: "2", b: "1" }));
  expect((await other)?.code).toBe("aborted");
  gate.resolve();
  expect((await Promise.all(both)).map(made => made.id)).toEqual(["v:c/v", "v:c/v"]);
});

test("a snapshot has the topologies of its connection, and one that is needed elsewhere is refused before it is taken", async () => {
  const world = muxWorld(["c"]);
  const zone = (value: string) => ({ "t.example/zone": value });
  world.traits.set("c", { accessibleTopology: [{ requirements: zone("a"), extra: {} }] });
  await world.volumes.create(request("v", "c"), call);
  const elsewhere = snapshotOf("s", "v:c/v", { requisite: [zone("b")], preferred: [] });
  expect(await codeOf(world.snapshots.create(elsewhere, call))).toBe("resource-exhausted");
  expect(world.memory("c").snapshots.size).toBe(0);
  const here = snapshotOf("s", "v:c/v", { requisite: [zone("a"), zone("b")], preferred: [zone("b")] });
  expect((await world.snapshots.create(here, call)).accessibleTopology).toEqual([zone("a")]);
  expect((await world.snapshots.get("s:c/s", call)).accessibleTopology).toEqual([zone("a")]);
  const { items } = await world.listing.snapshots({ max: 0, token: "" }, { snapshot: "", volume: "" }, call);
  expect(items.map(({ accessibleTopology: places }) => places)).toEqual([[zone("a")]]);
});

test("a group snapshot is taken on one connection, and all its ids are handles", async () => {
  const world = muxWorld(["a", "b"]);
  for (const [name, connection] of [
    ["v", "a"],
    ["w", "a"],
    ["x", "b"],
  ] as const)
    await world.volumes.create(request(name, connection), call);
  const mixed = await failure(world.groupSnapshots.create("g", ["v:a/v", "v:b/x"], {}, call));
  expect([mixed?.code, mixed?.message]).toEqual(["failed-precondition", expect.stringContaining("a, b")]);
  const group = await world.groupSnapshots.create("g", ["v:a/v", "v:a/w"], {}, call);
  expect(group.id).toBe("g:a/g");
  expect(group.snapshots.map(({ volumeId, group: of }) => [volumeId, of])).toEqual([
    ["v:a/v", "g:a/g"],
    ["v:a/w", "g:a/g"],
  ]);
  const ids = group.snapshots.map(({ id }) => id);
  expect(await world.groupSnapshots.get("g:a/g", ids, call)).toEqual(group);
  expect(await codeOf(world.groupSnapshots.get("g:a/g", ["s:b/x"], call))).toBe("invalid-argument");
  await world.groupSnapshots.delete("g:a/g", ids, call);
  expect(await codeOf(world.groupSnapshots.get("g:a/g", ids, call))).toBe("not-found");
  await world.groupSnapshots.delete("foreign", [], call);
});

test("properties are changed on the volume's connection, and refused if they cannot be changed", async () => {
  const world = muxWorld(["c"]);
  await world.volumes.create(request("v", "c", { mutable: { speed: "fast" } }), call);
  await world.volumes.modify("v:c/v", { speed: "slow" }, call);
  expect(world.memory("c").volumes.get("v")).toMatchObject({ speed: "slow" });
  expect(await codeOf(world.volumes.modify("v:c/v", { colour: "red" }, call))).toBe("invalid-argument");
});

test("a connection that refuses a volume because it is suspended or out of reach keeps nothing of it", async () => {
  const world = muxWorld(["c"]);
  for (const traits of [{ suspended: true }, { accessibleTopology: [at("z1")] }]) {
    world.traits.set("c", traits);
    world.memory("c").begun.add("v");
    const demand = { requisite: [zone("z2")], preferred: [] };
    expect(await codeOf(world.volumes.create(request("v", "c", { accessibility: demand }), call))).toBe(
      "resource-exhausted",
    );
    expect(world.memory("c").begun.size).toBe(0);
  }
});

test("a connection whose file was changed so that it refuses the volume keeps nothing of an earlier attempt", async () => {
  const world = muxWorld(["c"]);
  world.memory("c").begun.add("v");
  const { access } = world.memory("c").driver();
  world.traits.set("c", { access: { ...access, modes: ["multi-node-multi-writer"] } });
  expect(await codeOf(world.volumes.create(request("v", "c"), call))).toBe("invalid-argument");
  expect(world.memory("c").begun.size).toBe(0);
});

test("an expansion that fails for a missing tool is UNAVAILABLE, so that it is not taken for a volume in use", async () => {
  const world = muxWorld(["c"]);
  await world.volumes.create(request("v", "c"), call);
  world.traits.set("c", {
    driver: {
      ...world.memory("c").driver(),
      expand: {
        expand: async () => {
          throw new CsiError("failed-precondition", "program xfs_quota is missing");
        },
      },
    },
  });
  const error = await failure(world.volumes.expand("v:c/v", { required: 2n, limit: undefined }, undefined, call));
  expect(error).toMatchObject({ code: "unavailable", message: expect.stringContaining("xfs_quota") });
});

test("a class with a misspelt parameter makes no volume, no snapshot and no group snapshot, and adopts nothing", async () => {
  const world = muxWorld(["c"]);
  await world.volumes.create(request("v", "c"), call);
  const misspelt = (_: unknown, parameters: object) => ("wrong" in parameters ? "did you mean right?" : undefined);
  world.traits.set("c", { misspelt });
  world.edit("c");
  const parameters = { connection: "c", wrong: "x" };
  const attempts = [
    world.volumes.create(request("w", "c", { parameters }), call),
    world.volumes.create(request("w", "c", { parameters: { ...parameters, adopt: "byClaim" } }), call),
    world.snapshots.create({ ...snapshotOf("s", "v:c/v"), parameters }, call),
    world.groupSnapshots.create("g", ["v:c/v"], parameters, call),
  ];
  const refusal = { code: "invalid-argument", message: 'connection "c": did you mean right?' };
  for (const error of await Promise.all(attempts.map(failure))) expect(error).toMatchObject(refusal);
  expect(world.memory("c").volumes.size).toBe(1);
});
