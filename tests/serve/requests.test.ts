import { afterAll, beforeAll, expect, test } from "bun:test";
import { mountCapability } from "../../scripts/client.ts";
import { pause } from "../waiting.ts";
import { codeOf, failureOf, mebibytes, status, World } from "./world.ts";

let world: World;
const volumeId = "v:one/pvc-requests";
beforeAll(async () => {
  world = await World.start();
  await world.create("pvc-requests");
});
afterAll(async () => {
  expect(await world.end()).toEqual([]);
});

const block = { ...mountCapability, accessType: { case: "block" as const, value: {} } };

test.each([{}, { requiredBytes: 0n, limitBytes: 0n }])("expanding to the range %p is INVALID_ARGUMENT", async range => {
  const answer = await failureOf(world.controller("controllerExpandVolume", { volumeId, capacityRange: range }));
  expect(answer.code).toBe(status.invalidArgument);
  expect(answer.details).toContain("capacity_range");
});

test("expanding with a capability that the volume does not have is INVALID_ARGUMENT and changes nothing", async () => {
  const grow = { volumeId, capacityRange: mebibytes(2) };
  expect(await codeOf(world.controller("controllerExpandVolume", { ...grow, volumeCapability: block }))).toBe(
    status.invalidArgument,
  );
  expect((await world.controller("controllerGetVolume", { volumeId })).volume?.capacityBytes).toBe(1n << 20n);
  expect(
    (await world.controller("controllerExpandVolume", { ...grow, volumeCapability: mountCapability })).capacityBytes,
  ).toBe(2n << 20n);
});

test("mutable parameters, which no connection has, are INVALID_ARGUMENT and make nothing", async () => {
  const mutableParameters = { iops: "100" };
  const answer = await failureOf(world.create("pvc-mutable", "one", { mutableParameters }));
  expect(answer.code).toBe(status.invalidArgument);
  expect(answer.details).toContain('connection "one"');
  expect(await codeOf(world.controller("controllerGetVolume", { volumeId: "v:one/pvc-mutable" }))).toBe(
    status.notFound,
  );
});

test("a misspelt parameter of a class is INVALID_ARGUMENT and makes nothing; one that a template may read is not", async () => {
  const parameters = { connection: "one", deleteStrategi: "retain" };
  const refused = await failureOf(world.create("pvc-misspelt", "one", { parameters }));
  expect(refused).toMatchObject({
    code: status.invalidArgument,
    details: 'connection "one": the class has the unknown parameter "deleteStrategi": did you mean "deleteStrategy"?',
  });
  const snapshot = { name: "snap-misspelt", sourceVolumeId: volumeId, parameters: { detachedSnapshot: "true" } };
  expect(await codeOf(world.controller("createSnapshot", snapshot))).toBe(status.invalidArgument);
  expect((await world.stored("one")).filter(path => path.includes("misspelt"))).toEqual([]);
  await world.create("pvc-template", "one", { parameters: { connection: "one", team: "blue" } });
  await world.controller("deleteVolume", { volumeId: "v:one/pvc-template" });
});

test("only what was checked is confirmed, and never a class of another connection", async () => {
  const validate = (more: object) =>
    world.controller("validateVolumeCapabilities", { volumeId, volumeCapabilities: [mountCapability], ...more });
  const foreign = { node_attach_driver: "iscsi" };
  const { confirmed, message } = await validate({ parameters: { connection: "one" }, volumeContext: foreign });
  expect(message).toBe("");
  expect(confirmed?.volumeCapabilities).toHaveLength(1);
  expect({ ...confirmed?.volumeContext, ...confirmed?.parameters }).toEqual({});
  const partial = await validate({ volumeContext: { server: "nas" } });
  expect(partial.confirmed).toBeUndefined();
  expect(partial.message).toContain('"node_attach_driver"');
  const elsewhere = await validate({ parameters: { connection: "two" } });
  expect(elsewhere.confirmed).toBeUndefined();
  expect(elsewhere.message).toContain('"two"');
});

test("a token of one listing is ABORTED in another one", async () => {
  for (const name of ["snap-a", "snap-b"]) await world.controller("createSnapshot", { name, sourceVolumeId: volumeId });
  await world.create("pvc-requests-2");
  const { nextToken: ofVolumes } = await world.controller("listVolumes", { maxEntries: 1 });
  const { nextToken: ofSnapshots } = await world.controller("listSnapshots", { maxEntries: 1 });
  expect(await codeOf(world.controller("listSnapshots", { startingToken: ofVolumes }))).toBe(status.aborted);
  expect(await codeOf(world.controller("listVolumes", { startingToken: ofSnapshots }))).toBe(status.aborted);
  expect((await world.controller("listSnapshots", { startingToken: ofSnapshots })).entries).toHaveLength(1);
});

/** The log's lines about one method; one more call has been logged behind them. */
async function linesOf(method: string): Promise<readonly Record<string, unknown>[]> {
  const end = `pvc-end-${method}`;
  await codeOf(world.create(end, "none"));
  while (!(await world.daemon.log()).includes(end)) await pause(10);
  const lines = (await world.daemon.log()).trim().split("\n");
  return lines.map(line => JSON.parse(line) as Record<string, unknown>).filter(line => line["method"] === method);
}

test("an answered GetCapacity leaves no line in the log, because it is called for each class and segment all the time; a failure leaves one", async () => {
  await world.controller("getCapacity", { parameters: { connection: "one" } });
  for (let i = 0; i < 20; i++)
    expect(await codeOf(world.controller("getCapacity", { parameters: { connection: "none" } }))).toBe(
      status.unavailable,
    );
  expect(await linesOf("GetCapacity")).toMatchObject([
    { message: "failed", connection: "none", means: expect.stringContaining("did not have enough free storage") },
  ]);
});

test("a line in the log says which volume or snapshot it is about: its name while it is made, afterwards its handle", async () => {
  await world.controller("createSnapshot", { name: "snap-named", sourceVolumeId: volumeId });
  await world.controller("deleteSnapshot", { snapshotId: "s:one/gone" });
  await codeOf(world.create("n".repeat(5000), "one"));
  expect((await linesOf("CreateSnapshot")).at(-1)).toMatchObject({ object: "snap-named", connection: "one" });
  expect((await linesOf("DeleteSnapshot")).at(-1)).toMatchObject({ object: "s:one/gone" });
  expect((await linesOf("CreateVolume")).map(line => line["object"])).toContain("n".repeat(128));
});
