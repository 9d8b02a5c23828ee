import { expect, test } from "bun:test";
import { testCall } from "../fakes/memory-driver.ts";
import { muxWorld, request } from "./world.ts";

const call = testCall();

test("ValidateVolumeCapabilities confirms a context with an address of an earlier time, and warns once", async () => {
  const world = muxWorld(["one"]);
  const { volumes } = world;
  const warnings: string[] = [];
  const log = { ...call.log, warn: (text: string) => void warnings.push(text) };
  const { id, context } = await volumes.create(request("a", "one"), call);
  const driver = world.memory("one").driver();
  world.traits.set("one", {
    driver: {
      ...driver,
      reading: { get: async () => ({ id: "a", bytes: 1n, context: { server: "nas.example" }, source: undefined }) },
    },
  });
  world.edit("one");
  const asked = (server: string) =>
    volumes.validateCapabilities(
      {
        id,
        capabilities: request("a", "one").capabilities,
        context: { ...context, node_attach_driver: "nfs", server },
        parameters: {},
      },
      { ...call, log },
    );
  for (let time = 0; time < 2; time++) expect(await asked("10.0.0.5")).toBeUndefined();
  expect(await asked("NAS.example")).toBeUndefined();
  expect(warnings).toEqual([
    'the volume\'s address 10.0.0.5 is none of connection "one" (nas.example); if its storage has moved, add the old address to node.addresses in the main file of the nodes',
  ]);
  world.settings.isMapped = host => host === "10.0.0.6";
  expect(await asked("10.0.0.6")).toBeUndefined();
  expect(warnings).toHaveLength(1);
});
