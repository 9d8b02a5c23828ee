import { expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import type { Driver } from "../../lib/drivers/driver.ts";
import type { CreateRequest } from "../../lib/mux/context.ts";
import { perTest } from "../contract/per-test.ts";
import { type ZfsRig, zfsRig } from "../drivers/zfs/zfs-rig.ts";
import { testCall } from "../fakes/memory-driver.ts";
import { codeOf, failure, muxWorld, request } from "./world.ts";

// A class lets a claim have the volume again that it has given up.

const call = testCall();
const opened = perTest((instanceId: string | undefined, driver: string = "zfs-generic-nfs") =>
  zfsRig({ driver, ...(instanceId !== undefined && { instanceId }) }),
);

const of = (claim: string, name: string, connection: string, more: Partial<CreateRequest> = {}): CreateRequest => {
  const [namespace = "", own = ""] = claim.split("/");
  const names = { "csi.storage.k8s.io/pvc/namespace": namespace, "csi.storage.k8s.io/pvc/name": own };
  const plain = request(name, connection, more);
  return {
    ...plain,
    range: { required: 1n << 30n, limit: undefined },
    ...more,
    parameters: { connection, adopt: "byClaim", deleteStrategy: "retain", ...names, ...more.parameters },
  };
};

/** Connections "a" and "b", each on pools of its own, and the group "g" of both. */
async function world(instances: readonly (string | undefined)[] = ["east", "east"]) {
  const rigs: readonly ZfsRig[] = [await opened(instances[0]), await opened(instances[1])];
  const all = muxWorld(["a", "b", "m"]);
  const use = (name: string, driver: Driver | undefined) =>
    driver && all.traits.set(name, { driver, driverName: "zfs-generic-nfs", access: driver.access });
  use("a", rigs[0]?.open());
  use("b", rigs[1]?.open());
  all.groups.set("g", { from: { kind: "members", members: ["a", "b"] }, policy: "ordered" });
  const write = (at: number, id: string, text: string) =>
    rigs[at]?.write({ id, bytes: 0n, context: {}, source: undefined }, text);
  const made = async (named: string) => (await all.volumes.create(of("shop/db", "pvc-1", named), call)).id;
  return { ...all, rigs, use, write, made };
}

test.each(["a", "g"])("in class %s, a claim that is created again has its volume under the old handle", async named => {
  const all = await world();
  expect(await all.made(named)).toBe("v:a/pvc-1");
  await all.volumes.delete("v:a/pvc-1", call);
  const again = await all.volumes.create(of("shop/db", "pvc-2", named), call);
  expect(again).toMatchObject({ id: "v:a/pvc-1", bytes: 1n << 30n, context: { share: expect.any(String) } });
  expect(await all.volumes.create(of("shop/db", "pvc-2", named), call)).toEqual(again);
  // It is its own now; another claim, and a later one of the same name, get others.
  expect((await all.volumes.create(of("shop/db2", "pvc-3", named), call)).id).toBe("v:a/pvc-3");
  expect((await all.volumes.create(of("shop/db", "pvc-4", named), call)).id).toBe("v:a/pvc-4");
});

test("without the parameter, with a content source, and for a claim that has given up nothing, a volume is made", async () => {
  const all = await world();
  await all.made("a");
  expect((await all.volumes.create(of("shop/db", "pvc-2", "a"), call)).id).toBe("v:a/pvc-2");
  await all.volumes.delete("v:a/pvc-1", call);
  const without = { parameters: { adopt: "" } };
  expect((await all.volumes.create(of("shop/db", "pvc-3", "a", without), call)).id).toBe("v:a/pvc-3");
  const source = { source: { kind: "volume", id: "v:a/pvc-3" } } as const;
  expect((await all.volumes.create(of("shop/db", "pvc-4", "a", source), call)).id).toBe("v:a/pvc-4");
  // A request that has begun to make a volume continues with that.
  expect((await all.volumes.create(of("shop/db", "pvc-2", "a"), call)).id).toBe("v:a/pvc-2");
});

test.each([
  ["properties that its storage refuses", { mutable: { compression: "none-such" } }],
  ["options of mkfs that it refuses", { parameters: { mkfsOptions: "--force" } }],
])("a claim with %s leaves the volume to the next one of its name", async (_, more) => {
  const all = await world();
  if ("parameters" in more) all.use("a", (await opened("east", "zfs-generic-iscsi")).open());
  await all.made("a");
  await all.volumes.delete("v:a/pvc-1", call);
  expect(await codeOf(all.volumes.create(of("shop/db", "pvc-2", "a", more), call))).toBe("invalid-argument");
  expect((await all.volumes.create(of("shop/db", "pvc-3", "a"), call)).id).toBe("v:a/pvc-1");
});

test("of two volumes of a claim none is adopted, and both are named", async () => {
  const all = await world();
  await all.made("a");
  await all.volumes.create(of("shop/db", "pvc-2", "b"), call);
  for (const id of ["v:a/pvc-1", "v:b/pvc-2"]) await all.volumes.delete(id, call);
  const refused = await failure(all.volumes.create(of("shop/db", "pvc-3", "g"), call));
  expect(refused?.code).toBe("already-exists");
  for (const id of ["v:a/pvc-1", "v:b/pvc-2"]) expect(refused?.message).toContain(`"${id}"`);
  expect((await all.volumes.create(of("shop/db", "pvc-3", "b"), call)).id).toBe("v:b/pvc-2");
});

test("a group makes no volume while a member cannot be asked what the claim had there", async () => {
  const all = await world();
  const { rigs, use } = all;
  await all.volumes.create(of("shop/db", "pvc-1", "b"), call);
  await all.volumes.delete("v:b/pvc-1", call);
  all.up.delete("b");
  expect(await codeOf(all.volumes.create(of("shop/db", "pvc-2", "g"), call))).toMatch(
    /unavailable|failed-precondition/,
  );
  all.up.add("b");
  use("b", rigs[1]?.open());
  expect((await all.volumes.create(of("shop/db", "pvc-2", "g"), call)).id).toBe("v:b/pvc-1");
});

test("a class that its connection cannot serve is refused before anything is made", async () => {
  const all = await world([undefined, "east"]);
  const cases = [
    [of("shop/db", "pvc-1", "a"), "failed-precondition", "instance_id"],
    [of("shop/db", "pvc-1", "m"), "invalid-argument", "keep the volumes of a class"],
    [of("shop/db", "pvc-1", "b", { parameters: { adopt: "true" } }), "invalid-argument", "byClaim"],
    [of("shop/db", "pvc-1", "b", { parameters: { deleteStrategy: "never" } }), "invalid-argument", "deleteStrategy"],
    [of("", "pvc-1", "b"), "invalid-argument", "--extra-create-metadata"],
  ] as const;
  for (const [asked, code, text] of cases) {
    const refused = await failure(all.volumes.create(asked, call));
    expect([refused?.code, refused?.message]).toEqual([code, expect.stringContaining(text)]);
  }
  expect(await all.rigs[0]?.remains()).toEqual([]);
  expect(await all.rigs[1]?.remains()).toEqual([]);
});

test("a connection with deleteStrategy: retain marks what it leaves in place, and still succeeds if it cannot", async () => {
  const all = await world();
  const plain = { parameters: { deleteStrategy: "" } };
  await all.volumes.create(of("shop/db", "pvc-1", "a", plain), call);
  const driver = all.rigs[0]?.open();
  if (!driver) throw new Error("no driver");
  all.edit("a");
  all.traits.set("a", { driver, access: driver.access, retain: true });
  await all.volumes.delete("v:a/pvc-1", call);
  expect((await all.volumes.create(of("shop/db", "pvc-2", "a", plain), call)).id).toBe("v:a/pvc-1");
  const failing = (code: "unavailable" | "aborted"): Driver => ({
    ...{ protocol: driver.protocol, access: driver.access },
    create: (...given) => driver.create(...given),
    delete: (...given) => driver.delete(...given),
    retention: { release: () => Promise.reject(new CsiError(code, "the storage")) },
  });
  const deleted = async (code: "unavailable" | "aborted") => {
    all.edit("a");
    all.traits.set("a", { driver: failing(code), retain: true });
    return codeOf(all.volumes.delete("v:a/pvc-1", call));
  };
  expect([await deleted("unavailable"), await deleted("aborted")]).toEqual([undefined, "aborted"]);
});
