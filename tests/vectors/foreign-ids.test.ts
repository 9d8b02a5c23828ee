import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mountCapability } from "../../scripts/client.ts";
import { codeOf, World } from "../serve/world.ts";
import { type ForeignVector, vectors } from "./vectors.ts";

const { foreign_ids: published } = vectors().handles;

const codes: Readonly<Record<string, number | "ok">> = {
  OK: "ok",
  INVALID_ARGUMENT: 3,
  NOT_FOUND: 5,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  UNAVAILABLE: 14,
};

let world: World;

beforeAll(async () => {
  world = await World.start("off", ["c1", "c2"]);
}, 60_000);

afterAll(async () => {
  await world.end();
}, 60_000);

/** The source of a CreateVolume, as the wire has it. */
function sourceOf({ source_volume_id: volumeId, source_snapshot_id: snapshotId }: ForeignVector) {
  if (volumeId !== undefined) return { type: { case: "volume" as const, value: { volumeId } } };
  return { type: { case: "snapshot" as const, value: { snapshotId: snapshotId ?? "" } } };
}

function call(vector: ForeignVector): Promise<unknown> {
  const { id, rpc, parameters, volume_id: volumeId = "", snapshot_id: snapshotId = "" } = vector;
  if (rpc === "DeleteVolume") return world.controller("deleteVolume", { volumeId });
  if (rpc === "DeleteSnapshot") return world.controller("deleteSnapshot", { snapshotId });
  if (rpc === "ValidateVolumeCapabilities")
    return world.controller("validateVolumeCapabilities", { volumeId, volumeCapabilities: [mountCapability] });
  if (rpc === "GetCapacity") return world.controller("getCapacity", { parameters: { ...parameters } });
  if (rpc === "ListVolumes")
    return world.controller("listVolumes", { startingToken: vector.starting_token ?? "", maxEntries: 1 });
  if (rpc === "CreateSnapshot")
    return world.controller("createSnapshot", { name: id, sourceVolumeId: vector.source_volume_id ?? "" });
  if (rpc !== "CreateVolume") throw new Error(`${rpc} is not known to this test`);
  const hasSource = (vector.source_volume_id ?? vector.source_snapshot_id) !== undefined;
  const more = hasSource ? { volumeContentSource: sourceOf(vector) } : {};
  return world.create(id, "c1", { ...more, parameters: { ...(parameters ?? { connection: "c1" }) } });
}

describe("an id that is not ours", () => {
  test.each(published.map(each => [each.id, each.rpc, each.expect, each] as const))(
    "%s: %s answers %s",
    async (_, __, want, vector) => {
      expect(await codeOf(call(vector))).toBe(codes[want] ?? -1);
    },
  );
});
