import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { clientNames, store } from "../../scripts/nomad/place.ts";
import { stored, tidy } from "./left.ts";
import { api, nodeId, refusal, run, running, withFile } from "./nomad.ts";
import { healthy, startCentral, stopCentral, zoneKey } from "./plugins.ts";
import { consumer, create, placed, segmentsOf, volumeInfo, volumeText } from "./volumes.ts";

beforeAll(startCentral);
afterEach(() => tidy("csimux"));
afterAll(stopCentral);

describe("the topology of a volume", () => {
  test("places it in the zone that is required, and the job on the client of that zone", async () => {
    await create({ id: "there", connection: "b", more: placed(zoneKey, ["z2"]) });
    expect(await segmentsOf("there")).toEqual([{ [zoneKey]: "z2" }]);
    await run(consumer({ id: "use", volume: "there" }));
    expect((await running("use"))[0]?.NodeName).toBe("n2");
  });

  test("selects the member of a group: the preferred zone, or the only one", async () => {
    await create({ id: "preferred", connection: "pair", more: placed(zoneKey, ["z1", "z2"], ["z2"]) });
    await create({ id: "required", connection: "pair", more: placed(zoneKey, ["z1"]) });
    expect((await volumeInfo("preferred")).ExternalID).toBe("v:b/preferred");
    expect((await volumeInfo("required")).ExternalID).toBe("v:a/required");
    for (const [id, client] of [
      ["preferred", "n2"],
      ["required", "n1"],
    ] as const) {
      await run(consumer({ id: `use-${id}`, volume: id }));
      expect((await running(`use-${id}`))[0]?.NodeName).toBe(client);
    }
  });

  test("refuses a place that the connection cannot reach", async () => {
    const text = volumeText({ id: "nowhere", connection: "a", more: placed(zoneKey, ["z2"]) });
    expect(await withFile(text, file => refusal("volume", "create", file))).toContain("accessible_topology");
    expect(stored(join(store, "a"))).toEqual([]);
  });
});

test("listings are complete over pages of all connections, and page tokens survive a shell", async () => {
  for (const connection of ["a", "b", "anywhere"])
    for (let index = 0; index < 3; index++) await create({ id: `${connection}${index}`, connection });
  const listed: string[] = [];
  let token = "";
  do {
    const path = `/v1/volumes/external?plugin_id=csimux&per_page=2&next_token=${encodeURIComponent(token)}`;
    const page = await api<{
      readonly Volumes: readonly { readonly ExternalID: string }[];
      readonly NextToken: string;
    }>(path);
    listed.push(...(page?.Volumes ?? []).map(({ ExternalID }) => ExternalID));
    token = page?.NextToken ?? "";
    expect(token).toMatch(/^[\w@.,:/~+-]*$/);
  } while (token !== "");
  expect(listed.toSorted()).toEqual(
    ["a", "anywhere", "b"].flatMap(name => [0, 1, 2].map(index => `v:${name}/${name}${index}`)),
  );
});

test("the parts of the plugin are healthy, and each client has its node id", async () => {
  await healthy("csimux", 1, clientNames.length);
  for (const name of clientNames) {
    type Info = { readonly CSINodePlugins: Readonly<Record<string, { readonly NodeInfo: { readonly ID: string } }>> };
    const info = await api<Info>(`/v1/node/${await nodeId(name)}`);
    expect(info?.CSINodePlugins["csimux"]?.NodeInfo.ID).toBe(`n=${name}`);
  }
});
