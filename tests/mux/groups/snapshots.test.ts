import { expect, test } from "bun:test";
import { testCall } from "../../fakes/memory-driver.ts";
import { muxWorld, request } from "../world.ts";

const call = testCall();

test("a new group snapshot names its volumes as the request does, because PersistentVolumes are found by that", async () => {
  const world = muxWorld(["old"]);
  world.settings.legacyConnection = "old";
  for (const name of ["v", "w"]) await world.volumes.create(request(name, "old"), call);
  for (const _ of ["first", "repeated"]) {
    const { snapshots } = await world.groupSnapshots.create("g", ["w", "v:old/v"], {}, call);
    expect(snapshots.map(({ volumeId }) => volumeId).sort()).toEqual(["v:old/v", "w"]);
  }
});
