import { describe, expect, test } from "bun:test";
import type { Call } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { drawn } from "../sample.ts";
import { muxWorld, request } from "./world.ts";

const call = testCall();
const size = 1n << 20n;
const first = { max: 0, token: "" };
const anywhere = { capabilities: [], segment: undefined };
const range = (bytes: bigint) => ({ required: bytes, limit: undefined });

type World = ReturnType<typeof muxWorld>;
type Parts = Pick<World, "volumes" | "snapshots" | "listing" | "capacity" | "groupSnapshots">;

/** One of two callers: what it calls, for which connection, on which storage, and how it writes ids. */
interface Side {
  readonly parts: Parts;
  readonly connection: string;
  readonly storage: World["memories"] extends Map<string, infer Memory> ? Memory : never;
  /** Objects of this side; both sides have the same where their names do not meet. */
  readonly names: (name: string) => string;
  readonly prefixed: boolean;
}

const id = ({ prefixed, connection, names }: Side, kind: "v" | "s", name: string): string =>
  prefixed ? `${kind}:${connection}/${names(name)}` : names(name);

const groupId = ({ connection, names }: Side, name: string): string => `g:${connection}/${names(name)}`;

const snapshot = ({ parts, names }: Side, name: string, volume: string, own: Call) =>
  parts.snapshots.create(
    { name: names(name), volume, parameters: {}, accessibility: { requisite: [], preferred: [] } },
    own,
  );

const same = (name: string): string => name;
const apart = (connection: string) => (name: string) => `${name}-${connection}`;

/** Ids of the snapshots in the group snapshot "g" of a side. */
const grouped = new WeakMap<Side, readonly string[]>();

/** Two callers of the kinds that meet. Both come with the volumes "v" and "w" and the snapshot "s" of "v". */
const pairs: Readonly<Record<string, () => readonly [Side, Side]>> = {
  "two aliases whose ids are equal": () => {
    const world = muxWorld(["a", "b"]);
    const side = (connection: string): Side => ({
      parts: world.scopedTo(connection),
      connection,
      storage: world.memory(connection),
      names: same,
      prefixed: false,
    });
    return [side("a"), side("b")];
  },
  "an alias and the main name": () => {
    const world = muxWorld(["a", "b"]);
    const main: Side = {
      parts: world,
      connection: "a",
      storage: world.memory("a"),
      names: apart("main"),
      prefixed: true,
    };
    return [{ ...main, parts: world.scopedTo("a"), names: apart("alias"), prefixed: false }, main];
  },
  "two connections on one parent": () => {
    const world = muxWorld(["a", "b"]);
    const storage = world.memory("a");
    world.memories.set("b", storage);
    const side = (connection: string): Side => ({
      parts: world,
      connection,
      storage,
      names: apart(connection),
      prefixed: true,
    });
    return [side("a"), side("b")];
  },
  "two controllers on one storage": () => {
    const [one, other] = [muxWorld(["a"]), muxWorld(["a"])];
    const storage = one.memory("a");
    other.memories.set("a", storage);
    const side = (parts: Parts): Side => ({ parts, connection: "a", storage, names: same, prefixed: true });
    return [side(one), side(other)];
  },
  "two copies of one call": () => {
    const parts = muxWorld(["a"]);
    const side: Side = { parts, connection: "a", storage: parts.memory("a"), names: same, prefixed: true };
    return [side, side];
  },
};

/** Every operation of the router: what one caller does, and what there is to be seen of it, by its own ids, for this caller alone. */
const operations: Readonly<
  Record<string, { readonly run: (side: Side) => Promise<unknown>; readonly seen: (side: Side) => unknown }>
> = {
  CreateVolume: {
    run: async side =>
      expect((await side.parts.volumes.create(request(side.names("new"), side.connection), call)).id).toBe(
        id(side, "v", "new"),
      ),
    seen: ({ storage, names }) => storage.volumes.has(names("new")),
  },
  "CreateVolume of a snapshot": {
    run: async side => {
      const source = { kind: "snapshot" as const, id: id(side, "s", "s") };
      const made = await side.parts.volumes.create(request(side.names("new"), side.connection, { source }), call);
      expect([made.id, made.source]).toEqual([id(side, "v", "new"), source]);
    },
    seen: ({ storage, names }) => storage.volumes.get(names("new"))?.source?.id === names("s"),
  },
  DeleteVolume: {
    run: side => side.parts.volumes.delete(id(side, "v", "w"), call),
    seen: ({ storage, names }) => !storage.volumes.has(names("w")),
  },
  ControllerGetVolume: {
    run: async side => expect((await side.parts.volumes.get(id(side, "v", "v"), call)).id).toBe(id(side, "v", "v")),
    seen: () => true,
  },
  ValidateVolumeCapabilities: {
    run: async side =>
      expect(
        await side.parts.volumes.validateCapabilities(
          { id: id(side, "v", "v"), capabilities: request("x", "").capabilities, context: {}, parameters: {} },
          call,
        ),
      ).toBeUndefined(),
    seen: () => true,
  },
  ControllerExpandVolume: {
    run: async side =>
      expect((await side.parts.volumes.expand(id(side, "v", "v"), range(4n * size), undefined, call)).bytes).toBe(
        4n * size,
      ),
    seen: ({ storage, names }) => storage.volumes.get(names("v"))?.bytes === 4n * size,
  },
  ControllerModifyVolume: {
    run: side => side.parts.volumes.modify(id(side, "v", "v"), { speed: "fast" }, call),
    seen: ({ storage, names }) => storage.volumes.get(names("v"))?.speed === "fast",
  },
  CreateSnapshot: {
    run: async side => {
      const made = await snapshot(side, "new", id(side, "v", "v"), call);
      expect([made.id, made.volumeId]).toEqual([id(side, "s", "new"), id(side, "v", "v")]);
    },
    seen: ({ storage, names }) => storage.snapshots.get(names("new"))?.volumeId === names("v"),
  },
  DeleteSnapshot: {
    run: side => side.parts.snapshots.delete(id(side, "s", "s"), call),
    seen: ({ storage, names }) => !storage.snapshots.has(names("s")),
  },
  GetSnapshot: {
    run: async side => expect((await side.parts.snapshots.get(id(side, "s", "s"), call)).id).toBe(id(side, "s", "s")),
    seen: () => true,
  },
  ListVolumes: {
    run: async side => {
      const ids = (await side.parts.listing.volumes(first, call)).items.map(each => each.id);
      for (const name of ["v", "w", `only-${side.connection}`]) expect(ids).toContain(id(side, "v", name));
      if (!side.prefixed) expect(ids).toHaveLength(side.storage.volumes.size);
    },
    seen: () => true,
  },
  ListSnapshots: {
    run: async side => {
      const { items } = await side.parts.listing.snapshots(first, { snapshot: "", volume: "" }, call);
      const ids = items.map(each => each.id);
      for (const name of ["s", `only-${side.connection}`]) expect(ids).toContain(id(side, "s", name));
      if (!side.prefixed) expect(ids).toHaveLength(side.storage.snapshots.size);
    },
    seen: () => true,
  },
  "ListSnapshots of a volume": {
    run: async side => {
      const filter = { snapshot: "", volume: id(side, "v", "v") };
      const ids = (await side.parts.listing.snapshots(first, filter, call)).items.map(each => each.id);
      expect(ids.sort()).toEqual(["s", `only-${side.connection}`].map(name => id(side, "s", name)).sort());
    },
    seen: () => true,
  },
  GetCapacity: {
    run: async side => {
      const wanted = { ...anywhere, parameters: { connection: side.connection } };
      expect(await side.parts.capacity.available(wanted, call)).toBe(side.storage.free ?? 0n);
    },
    seen: () => true,
  },
  CreateVolumeGroupSnapshot: {
    run: async side => {
      const volumes = ["v", "w"].map(name => id(side, "v", name));
      const made = await side.parts.groupSnapshots.create(side.names("new"), volumes, {}, call);
      expect([made.id, made.snapshots.map(each => each.volumeId).sort()]).toEqual([groupId(side, "new"), volumes]);
    },
    seen: ({ storage, names }) =>
      [...storage.snapshots.values()].filter(({ group }) => group === names("new")).length === 2,
  },
  DeleteVolumeGroupSnapshot: {
    run: async side => {
      await side.parts.groupSnapshots.delete(groupId(side, "g"), grouped.get(side) ?? [], call);
    },
    seen: ({ storage, names }) => ![...storage.snapshots.values()].some(({ group }) => group === names("g")),
  },
  ControllerGetVolumeHealth: {
    run: async side =>
      expect((await side.parts.volumes.health(id(side, "v", "v"), call)).map(each => each.message)).toEqual([
        `${side.names("v")} is full`,
      ]),
    seen: () => true,
  },
  ControllerListVolumeHealth: {
    run: async side => {
      const ids = (await side.parts.listing.health(first, call)).items.map(each => each.id);
      for (const name of ["v", `only-${side.connection}`]) expect(ids).toContain(id(side, "v", name));
      if (!side.prefixed) expect(ids).toHaveLength(side.storage.findings.volumes.size);
    },
    seen: () => true,
  },
};

/** The objects that every side begins with; "only-…" differs between storages that are otherwise equal. */
async function prepare(side: Side): Promise<void> {
  const { parts, connection, storage, names } = side;
  const own = `only-${connection}`;
  for (const name of ["v", "w", own]) await parts.volumes.create(request(names(name), connection), call);
  for (const name of ["s", own]) await snapshot(side, name, id(side, "v", "v"), call);
  const group = await parts.groupSnapshots.create(names("g"), [id(side, "v", own)], {}, call);
  const members = group.snapshots.map(each => each.id);
  expect(members).toHaveLength(1);
  grouped.set(side, members);
  storage.free = connection === "a" ? 5n << 30n : 9n << 30n;
  const full = [{ reason: "QuotaFull" as const, message: `${names("v")} is full` }];
  const volumes = new Map([...storage.findings.volumes, [names("v"), full], [names(own), full]]);
  storage.findings = { ...storage.findings, volumes };
}

/** Repeats a call as the sidecars do, while the answer is ABORTED. */
async function repeated(run: () => Promise<unknown>): Promise<number> {
  for (let tries = 1; ; tries++) {
    try {
      await run();
      return tries;
    } catch (error) {
      if (!(error instanceof CsiError && error.code === "aborted") || tries > 100) throw error;
      await new Promise(resolve => setImmediate(resolve));
    }
  }
}

describe.each(Object.entries(pairs))("%s", (what, pair) => {
  test.each(Object.entries(operations))("at once: %s", async (_, { run, seen }) => {
    // Each lead of the first over the second by some ticks makes them meet at another step.
    for (const ticks of drawn([...Array(24).keys()], 8)) {
      const sides = pair();
      for (const side of new Set(sides)) await prepare(side);
      const [one, other] = sides;
      const leading = repeated(() => run(one));
      for (let tick = 0; tick < ticks; tick++) await Promise.resolve();
      const tries = await Promise.all([leading, repeated(() => run(other))]);
      expect(sides.map(seen)).toEqual([true, true]);
      // Only two processes, and two driver names for one connection, get into each other's method.
      if (!/controllers|main name/.test(what)) expect(tries).toEqual([1, 1]);
    }
  });
});
