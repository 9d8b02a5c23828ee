import { expect, test } from "bun:test";
import { disk, fixedFilesystems, protocols } from "../../lib/core/access.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { infiniteBytes } from "../../lib/mux/capacity.ts";
import { filesystems } from "../../lib/node/disks/filesystems.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { writer } from "../node/lab.ts";
import { codeOf, failure, muxWorld, request } from "./world.ts";

const call = testCall();
const anywhere = { capabilities: [], parameters: {}, segment: undefined };
const silence = new Promise<void>(() => undefined);

test("without a class, the capacity is that of the largest connection that answers", async () => {
  const world = muxWorld(["a", "b", "down", "hung"]);
  world.memory("a").free = 5n << 30n;
  world.memory("b").free = 9n << 30n;
  world.memory("down").fail.available = new CsiError("unavailable", "no route to host");
  world.memory("hung").look = silence;
  expect(await world.capacity.available(anywhere, call)).toBe(9n << 30n);
});

test("without a class, it is UNAVAILABLE if no connection answers, and infinite if there is none", async () => {
  const world = muxWorld(["down", "hung"]);
  world.memory("down").fail.available = new CsiError("unavailable", "no route to host");
  world.memory("hung").look = silence;
  expect(await codeOf(world.capacity.available(anywhere, call))).toBe("unavailable");
  expect(await muxWorld([]).capacity.available(anywhere, call)).toBe(infiniteBytes);
});

test("the capacity of a connection that hangs is UNAVAILABLE and names it", async () => {
  const world = muxWorld(["hung"]);
  world.memory("hung").look = silence;
  const error = await failure(world.capacity.available({ ...anywhere, parameters: { connection: "hung" } }, call));
  expect(error?.code).toBe("unavailable");
  expect(error?.message).toContain('"hung"');
});

test("the capacity of a group is that of the members that answer, and UNAVAILABLE with the name of the file if none does", async () => {
  const world = muxWorld(["a", "b"]);
  world.groups.set("both", { from: { kind: "members", members: ["a", "b"] }, policy: "ordered" });
  world.memory("a").free = 5n << 30n;
  world.up.delete("b");
  const ask = () => world.capacity.available({ ...anywhere, parameters: { connection: "both" } }, call);
  expect(await ask()).toBe(5n << 30n);
  world.memory("a").look = silence;
  world.up.add("b");
  expect(await ask()).toBe(1n << 40n);
  world.up.delete("b");
  world.up.delete("a");
  const error = await failure(ask());
  expect(error?.code).toBe("unavailable");
  expect(error?.message).toContain("restore its file a.yaml");
});

test("if there is no capacity, the log says once why, and what Kubernetes shows", async () => {
  const world = muxWorld(["a"]);
  world.traits.set("a", { accessibleTopology: [{ requirements: { "t.example/zone": "z1" }, extra: {} }] });
  const lines: string[] = [];
  const log = { ...call.log, info: (line: string, fields?: object) => void lines.push(line + JSON.stringify(fields)) };
  const segment = { "t.example/zone": "z2" };
  const request = { ...anywhere, parameters: { connection: "a" }, segment };
  for (let i = 0; i < 100; i++) expect(await world.capacity.available(request, { ...call, log })).toBe(0n);
  expect(lines).toHaveLength(1);
  expect(lines[0]).toContain('"did not have enough free storage"');
  expect(lines[0]).toContain('"t.example/zone":"z2"');
});

test("an answer about all connections is reused only for equal parameters", async () => {
  const world = muxWorld(["a"]);
  const asked: unknown[] = [];
  const driver = world.memory("a").driver();
  const available = async (parameters: object) => BigInt(asked.push(parameters));
  world.traits.set("a", { driver: { ...driver, capacity: { available } } });
  const ask = (parameters: Record<string, string>) => world.capacity.available({ ...anywhere, parameters }, call);
  expect([await ask({}), await ask({ pool: "fast" }), await ask({}), await ask({ pool: "fast" })]).toEqual([
    1n,
    2n,
    1n,
    2n,
  ]);
});

test("connections that hang delay the answer once, wherever they are among the others", async () => {
  const names = Array.from({ length: 200 }, (_, index) => `c${String(index).padStart(3, "0")}`);
  // Long in comparison with a moment in which a busy machine does nothing for this process.
  const limit = 2_000;
  const world = muxWorld(names, { look: limit, capacity: limit });
  for (const name of names.filter((_, index) => index % 50 === 0)) world.memory(name).look = silence;
  const from = performance.now();
  await world.capacity.available(anywhere, call);
  expect(performance.now() - from).toBeLessThan(2 * limit);
});

test("the file systems that nodes cannot grow are known to the controller", () => {
  const fixed = Object.entries(filesystems).filter(([, { grow }]) => grow === undefined);
  expect(fixed.map(([name]) => name)).toEqual([...fixedFilesystems]);
});

test.each([
  ["xfs", 299n, disk, "out-of-range"],
  ["xfs", 300n, disk, undefined],
  ["ext4", 299n, disk, undefined],
  // What a folder is on is not made by csimux.
  ["xfs", 299n, protocols.hostpath, undefined],
])(
  "a claim for %s of %p MiB is refused where no node could make it, alone and in a group",
  async (fsType, mebibytes, access, answer) => {
    const world = muxWorld(["c", "d"]);
    for (const name of ["c", "d"]) world.traits.set(name, { access });
    world.groups.set("both", { from: { kind: "members", members: ["c", "d"] }, policy: "ordered" });
    const range = { required: mebibytes << 20n, limit: undefined };
    const more = { range, capabilities: [{ ...writer, fsType }] };
    for (const named of ["c", "both"])
      expect(await codeOf(world.volumes.create(request(`of-${named}`, named, more), call))).toBe(answer);
    expect(world.memory("c").volumes.size).toBe(answer ? 0 : 2);
  },
);

test("a copy of a smaller xfs, which has its file system already, and a volume that exists are not refused", async () => {
  const world = muxWorld(["c"]);
  world.traits.set("c", { access: disk });
  await world.volumes.create(request("old", "c"), call);
  const capabilities = [{ ...writer, fsType: "xfs" }];
  for (const more of [{ name: "old" }, { name: "copy", source: { kind: "volume", id: "v:c/old" } as const }])
    expect(
      await codeOf(world.volumes.create(request(more.name, "c", { capabilities, ...more }), call)),
    ).toBeUndefined();
});

test.each([
  ["vfat", "invalid-argument"],
  ["xfs", undefined],
  ["", undefined],
])("a disk with the file system %p is expanded, unless no node can grow it (%p)", async (fsType, answer) => {
  const world = muxWorld(["c"]);
  world.traits.set("c", { access: disk });
  await world.volumes.create(request("v", "c"), call);
  const range = { required: 2n << 20n, limit: undefined };
  const size = () => world.memory("c").volumes.get("v")?.bytes;
  const before = size();
  expect(await codeOf(world.volumes.expand("v:c/v", range, { ...writer, fsType }, call))).toBe(answer);
  expect(size() === before).toBe(answer !== undefined);
});
