import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { CsiError } from "../../lib/core/errors.ts";
import { failure as asFailure, guarded, inUse } from "../../lib/drivers/failure.ts";
import { zfsErrorMapping } from "../../lib/drivers/zfs/storage.ts";
import { ZfsError } from "../../lib/drivers/zfs/zfs.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { passing } from "../waiting.ts";
import { copySituations } from "./copy-situations.ts";
import { failure, muxWorld, request } from "./world.ts";

type World = ReturnType<typeof muxWorld>;

const text = readFileSync(new URL("../../lib/core/errors.md", import.meta.url), "utf8");
const rows = text
  .split("\n")
  .filter(line => /^\| [^-]/.test(line))
  .map(line =>
    line
      .split("|")
      .slice(1, -1)
      .map(cell => cell.trim()),
  );
const callers = rows.slice(
  0,
  rows.findIndex(([first]) => first === "RPC"),
);
const answers = rows.slice(callers.length + 1);

const call = testCall();
const zone = (name: string) => ({ "t.example/zone": name });
const denied = new CsiError("unauthenticated", "user name or password are wrong");
const zfsSubject = { connection: "a", explain: zfsErrorMapping };
const down = new CsiError("unavailable", "no route to host");
const pool = { from: { kind: "members" as const, members: ["a", "b"] }, policy: "ordered" as const };
const anywhere = { capabilities: [], parameters: { connection: "a" }, segment: undefined };
const grouped = { ...anywhere, parameters: { connection: "g" } };
const first = { max: 0, token: "" };
const hour = 3_600_000;
const range = { required: 2n << 20n, limit: undefined };

const create = (world: World, connection = "a", more: object = {}, name = "new", own = call) =>
  world.volumes.create(request(name, connection, more), own);
const snapshot = (world: World, volume: string, parameters = {}, name = "s") =>
  world.snapshots.create({ name, volume, parameters, accessibility: { requisite: [], preferred: [] } }, call);
const expand = (world: World, id = "v:a/v") => world.volumes.expand(id, range, undefined, call);

/** A driver of "a" whose expansion fails so; without a code it cannot expand at all. */
function expanding(world: World, code?: CsiError["code"]): void {
  const fail = async () => {
    throw new CsiError(code ?? "internal", "no expansion");
  };
  world.traits.set("a", { driver: { ...world.memory("a").driver(), expand: code && { expand: fail } } });
}

/** The lines of the second table: how to come into the situation, and the call. The volume "v:a/v" exists, "g" has a and b. */
const situations: Readonly<Record<string, Readonly<Record<string, (world: World) => Promise<unknown>>>>> = {
  CreateVolume: {
    "the class names no connection": world => create(world, "a", { parameters: {} }),
    "the class names a connection without a file": async world => {
      world.clock.ahead = hour;
      await create(world, "absent");
    },
    "no file, csimux started within the last hour": world => create(world, "absent"),
    "the file of the connection is invalid": async world => {
      world.broken.add("c");
      await create(world, "c");
    },
    "the file was removed less than an hour ago": async world => {
      world.up.delete("a");
      await create(world);
    },
    "a member of the group has no file": async world => {
      world.up.delete("b");
      await create(world, "g");
    },
    "a member of the group does not answer": async world => {
      world.memory("b").look = new Promise(() => undefined);
      await create(world, "g");
    },
    "no member of the group answers": async world => {
      for (const name of ["a", "b"]) world.memory(name).fail.find = down;
      await create(world, "g");
    },
    "the member with the source does not answer": async world => {
      world.memory("a").fail = { find: down, create: down };
      await create(world, "g", { source: { kind: "volume", id: "v:a/v" } });
    },
    "no member that answers has room": async world => {
      world.memory("a").free = 1n;
      world.memory("b").fail.find = down;
      await create(world, "g");
    },
    "a member fails, and another does not answer": async world => {
      world.memory("a").fail.find = down;
      world.memory("b").fail.create = new CsiError("permission-denied", "the account must not create datasets");
      await create(world, "g");
    },
    "the group was removed less than an hour ago": async world => {
      await create(world, "g", {}, "before");
      world.clock.ahead = hour;
      world.groups.delete("g");
      await create(world, "g");
    },
    "the group has no members": async world => {
      world.groups.set("g", { ...pool, from: { kind: "members", members: [] } });
      await create(world, "g");
    },
    "a member of the group cannot look up names": async world => {
      world.memory("b").named = false;
      await create(world, "g");
    },
    "the size is impossible": world => create(world, "a", { range: { required: 2n, limit: 1n } }),
    "the connection does not support the request": world =>
      create(world, "a", {
        capabilities: [
          { kind: "block", fsType: undefined, mountFlags: [], mountGroup: undefined, mode: "single-node-writer" },
        ],
      }),
    "its source cannot be copied from there": world => create(world, "b", { source: { kind: "volume", id: "v:a/v" } }),
    ...copySituations,
    "the source does not belong to this driver": world =>
      create(world, "a", { source: { kind: "volume", id: "foreign" } }),
    "the storage system is out of reach there": async world => {
      world.traits.set("a", { accessibleTopology: [{ requirements: zone("z1"), extra: {} }] });
      await create(world, "a", { accessibility: { requisite: [zone("z2")], preferred: [] } });
    },
    "the connection is suspended": async world => {
      world.traits.set("a", { suspended: true });
      await create(world);
    },
    "the storage system is full": async world => {
      world.memory("a").fail.create = new CsiError("resource-exhausted", "pool full");
      await create(world);
    },
    "no member of the group has room": async world => {
      for (const name of ["a", "b"]) world.memory(name).free = 1n;
      await create(world, "g");
    },
    "the storage system does not answer": async world => {
      world.memory("a").fail.create = down;
      await create(world);
    },
    "the storage system refuses the login": async world => {
      world.memory("a").fail.create = denied;
      await create(world);
    },
    "the pool does not exist or is not imported": async world => {
      world.memory("a").fail.create = asFailure(new ZfsError("pool-absent", "no pool"), zfsSubject, "create volume");
      await create(world);
    },
    "the storage fails for an unknown reason": async world => {
      const fail = () => Promise.reject(new ZfsError("other", "cannot open 'tank': I/O error"));
      const failing = () => guarded(zfsSubject, "create volume", "new", call, fail);
      world.traits.set("a", { driver: { ...world.memory("a").driver(), create: failing } });
      await create(world);
    },
    "it is in progress with other arguments": async world => {
      world.memory("a").gate = new Promise(() => undefined);
      void failure(create(world));
      await create(world, "a", { range });
    },
    "it exceeds the deadline of the call": async world => {
      world.memory("a").gate = new Promise(() => undefined);
      await create(world, "a", {}, "new", testCall(AbortSignal.timeout(20)));
    },
    "the name is taken by a volume of another size": world =>
      create(world, "a", { range: { required: 9n << 30n, limit: undefined } }, "v"),
  },
  DeleteVolume: {
    "the id does not belong to this driver": world => world.volumes.delete("foreign", call),
    "the connection has no file": world => world.volumes.delete("v:absent/v", call),
    "the file of the connection is invalid": async world => {
      world.broken.add("c");
      await world.volumes.delete("v:c/v", call);
    },
    "the storage system does not answer": async world => {
      world.memory("a").fail.delete = down;
      await world.volumes.delete("v:a/v", call);
    },
    "the volume is being copied": async world => {
      world.memory("a").gate = new Promise(() => undefined);
      void failure(create(world, "a", { source: { kind: "volume", id: "v:a/v" } }));
      // The calls begin, and then wait for the storage.
      await passing(1);
      await world.volumes.delete("v:a/v", call);
    },
    "a node still uses the disk": async world => {
      world.memory("a").fail.delete = inUse("the target of v", ["node-1"]);
      await world.volumes.delete("v:a/v", call);
    },
  },
  GetCapacity: {
    "the class names a connection without a file": async world => {
      world.clock.ahead = hour;
      await world.capacity.available({ ...anywhere, parameters: { connection: "absent" } }, call);
    },
    "a member of the group does not answer": async world => {
      world.memory("a").look = new Promise(() => undefined);
      await world.capacity.available(grouped, call);
    },
    "no member of the group answers": async world => {
      for (const name of ["a", "b"]) world.memory(name).fail.available = down;
      await world.capacity.available(grouped, call);
    },
    "the storage system is out of reach there": async world => {
      world.traits.set("a", { accessibleTopology: [{ requirements: zone("z1"), extra: {} }] });
      expect(await world.capacity.available({ ...anywhere, segment: zone("z2") }, call)).toBe(0n);
    },
  },
  ControllerExpandVolume: {
    "the connection has no file": world => expand(world, "v:absent/v"),
    "the volume does not exist": async world => {
      expanding(world, "not-found");
      await expand(world);
    },
    "the driver cannot expand": async world => {
      expanding(world);
      await expand(world);
    },
    "a tool or a permission is missing": async world => {
      expanding(world, "failed-precondition");
      await expand(world);
    },
    "the storage system is full": async world => {
      expanding(world, "resource-exhausted");
      await expand(world);
    },
  },
  CreateSnapshot: {
    "the connection has no file": world => snapshot(world, "v:absent/v"),
    "the storage system refuses the login": async world => {
      const fail = async () => {
        throw denied;
      };
      const { snapshots, ...driver } = world.memory("a").driver();
      world.traits.set("a", { driver: { ...driver, ...(snapshots && { snapshots: { ...snapshots, create: fail } }) } });
      await snapshot(world, "v:a/v");
    },
    "the volume does not belong to this driver": world => snapshot(world, "foreign"),
    "the class names another connection": world => snapshot(world, "v:a/v", { connection: "b" }),
  },
  DeleteSnapshot: {
    "the id does not belong to this driver": world => world.snapshots.delete("foreign", call),
    "the connection has no file": world => world.snapshots.delete("s:absent/s", call),
  },
  ListVolumes: {
    "a storage system does not answer": async world => {
      world.memory("b").fail.list = down;
      await world.listing.volumes(first, call);
    },
    "a file was never valid": async world => {
      world.broken.add("c");
      await world.listing.volumes(first, call);
    },
    "the token belongs to another listing": world => world.listing.volumes({ max: 0, token: "foreign" }, call),
  },
  ListSnapshots: {
    "the connection of the filter has no file": world =>
      world.listing.snapshots(first, { snapshot: "s:absent/s", volume: "" }, call),
    "the id of the filter belongs to no connection": world =>
      world.listing.snapshots(first, { snapshot: "foreign", volume: "" }, call),
  },
  ControllerGetVolume: {
    "the connection has no file": world => world.volumes.get("v:absent/v", call),
    "the volume does not exist": world => world.volumes.get("v:a/gone", call),
  },
};

async function prepared(): Promise<World> {
  const world = muxWorld(["a", "b", "c"]);
  world.groups.set("g", pool);
  await create(world, "a", {}, "v");
  return world;
}

describe.each(answers)("%s, where %s,", (rpc = "", situation = "", code = "", left = "") => {
  test(`is ${code}`, async () => {
    const enter = situations[rpc]?.[situation];
    expect(enter).toBeDefined();
    const failed = await failure(Promise.resolve(enter?.(await prepared())));
    expect((failed?.code ?? "ok").toUpperCase().replaceAll("-", "_")).toBe(code);
  });

  test("is an answer that every caller understands", () => {
    const [head = [], ...codes] = callers;
    const line = codes.find(([each]) => each === code) ?? codes.at(-1) ?? [];
    const reactions = head.flatMap((column, index) => (column.split(",")[0] === rpc ? [line[index] ?? ""] : []));
    if (code === "OK") return expect(left).toBe("nothing");
    // What may be there must be asked for again; a claim that a file or a repeat can heal must not be held back.
    if (left === "perhaps") for (const reaction of reactions) expect(["repeat", "again"]).toContain(reaction);
    if (/file|answer|tool|full|suspended/.test(situation))
      for (const reaction of reactions) expect(["held", "wait"]).not.toContain(reaction);
  });
});

test("the table has every situation once", () => {
  const named = Object.entries(situations).flatMap(([rpc, all]) => Object.keys(all).map(each => `${rpc} ${each}`));
  expect(answers.map(([rpc, situation]) => `${rpc} ${situation}`).sort()).toEqual(named.sort());
});
