import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { type Client, clientNames, folderOf, onClient } from "../../scripts/nomad/place.ts";
import { stored, tidy } from "./left.ts";
import { inTask, refusal, run, running, stop, withFile } from "./nomad.ts";
import { healthy, type Plugin, pluginJob, recordsOf } from "./plugins.ts";
import { consumer, create, placed, removeVolumes, segmentsOf, volumeInfo, volumeText } from "./volumes.ts";

const driver = "csimux.local";
const key = `${driver}/node`;

/** A monolith on one client: controller and node in one process, with volumes on the disk of the client. */
const monolith = (client: Client): Plugin => ({
  job: `csimux-${client}`,
  id: `csimux-${client}`,
  kind: "monolith",
  runs: "raw_exec",
  client,
  args: [
    ...["serve", "--name", driver, "--mode", "controller,node", "--config", "${NOMAD_TASK_DIR}/proxy.yaml"],
    ...["--state-dir", recordsOf(`csimux-${client}`)],
  ],
  files: {
    "local/proxy.yaml": [
      "driver: proxy",
      "proxy:",
      '  configFolder: {{ env "NOMAD_SECRETS_DIR" }}/connections',
      "  nodeTopology:",
      "    type: node",
      `    prefix: ${driver}`,
      "",
    ].join("\n"),
    "secrets/connections/disk.yaml": [
      "driver: local-hostpath",
      "local-hostpath:",
      `  shareBasePath: ${onClient.own}/disk`,
      `  controllerBasePath: ${onClient.own}/disk`,
      '  dirPermissionsMode: "0777"',
      "",
    ].join("\n"),
  },
});

const ids = clientNames.map(client => `csimux-${client}`);

beforeAll(async () => {
  for (const client of clientNames) await run(pluginJob(monolith(client)));
  for (const id of ids) await healthy(id, 1, 1);
});
afterEach(() => tidy(...ids));
afterAll(() => stop(...ids));

describe("a monolith for the disks of each client", () => {
  test("has volumes on the client's own disk, and jobs follow them", async () => {
    for (const client of clientNames) {
      await create({ id: `on-${client}`, plugin: `csimux-${client}`, connection: "disk" });
      expect((await volumeInfo(`on-${client}`)).ExternalID).toBe(`v:disk/on-${client}`);
      expect(stored(join(folderOf(client), "disk"))).toContain(`v/on-${client}`);
      await run(consumer({ id: `use-${client}`, volume: `on-${client}`, run: `echo ${client} > /data/f` }));
      expect((await running(`use-${client}`))[0]?.NodeName).toBe(client);
      expect(await inTask(`use-${client}`, "sleep 1; cat /data/f")).toBe(`${client}\n`);
    }
    await stop(...clientNames.map(client => `use-${client}`));
    await removeVolumes("on-n1");
    expect(stored(join(folderOf("n1"), "disk"))).toEqual([]);
    expect(stored(join(folderOf("n2"), "disk"))).toContain("v/on-n2/f");
  });

  test("places a volume where the topology of the request says, and refuses another client's", async () => {
    await create({ id: "here", plugin: "csimux-n2", connection: "disk", more: placed(key, ["n2"]) });
    expect(await segmentsOf("here")).toEqual([{ [key]: "n2" }]);
    const text = volumeText({ id: "wrong", plugin: "csimux-n1", connection: "disk", more: placed(key, ["n2"]) });
    expect(await withFile(text, file => refusal("volume", "create", file))).toContain("accessible_topology");
    expect(stored(join(folderOf("n1"), "disk"))).toEqual([]);
  });
});
