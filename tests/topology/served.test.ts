import { afterEach, describe, expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import {
  Controller,
  Identity,
  Node,
  PluginCapability_Service_Type as Service,
} from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { build } from "../../scripts/build.ts";
import { type CsiClient, csiClient, mountCapability } from "../../scripts/client.ts";
import { type Daemon, startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox, type Sandbox } from "../../scripts/sandbox.ts";
import { codeOf, failureOf, mebibytes, status } from "../serve/world.ts";

type Segments = Record<string, string>;

interface Served {
  readonly sandbox: Sandbox;
  readonly daemon: Daemon;
  readonly client: CsiClient;
}

const running: Served[] = [];

afterEach(async () => {
  for (const { sandbox, daemon, client } of running.splice(0)) {
    client.close();
    await daemon.stop();
    await sandbox.remove();
  }
});

/** The compiled csimux with these `proxy:` and `node:` blocks, one local connection "one", and this name of the node. */
async function served(proxy: object, nodeName: string, node: object = {}): Promise<Served> {
  const sandbox = await makeSandbox("off", ["one"]);
  const main = { driver: "proxy", proxy: { configFolder: sandbox.connections, ...proxy }, node };
  await writeFile(sandbox.config, JSON.stringify(main));
  const starting = startDaemon({ command: [await build()], sandbox, env: { CSI_NODE_ID: nodeName } });
  const daemon = await starting.catch(async (error: unknown) => {
    await sandbox.remove();
    throw error;
  });
  const all = { sandbox, daemon, client: csiClient(sandbox.socket) };
  running.push(all);
  return all;
}

const info = ({ client }: Served) => client.call(Node.method.nodeGetInfo, {}, 10_000);

/** CreateVolume of one mebibyte on "one", reachable from one of these places. */
const create = ({ client }: Served, name: string, requisite: readonly Segments[] = []) =>
  client.call(Controller.method.createVolume, {
    name,
    parameters: { connection: "one" },
    capacityRange: mebibytes(1),
    volumeCapabilities: [mountCapability],
    accessibilityRequirements: { requisite: requisite.map(segments => ({ segments })) },
  });

async function announces({ client }: Served): Promise<boolean> {
  const { capabilities } = await client.call(Identity.method.getPluginCapabilities, {});
  return capabilities.some(
    ({ type }) => type.case === "service" && type.value.type === Service.VOLUME_ACCESSIBILITY_CONSTRAINTS,
  );
}

describe("without topology in the main file", () => {
  test("no topology is announced, reported or attached to volumes", async () => {
    const csimux = await served({}, "w1");
    expect(await announces(csimux)).toBe(false);
    const { accessibleTopology, maxVolumesPerNode } = await info(csimux);
    expect([accessibleTopology, maxVolumesPerNode]).toEqual([undefined, 0n]);
    expect((await create(csimux, "v1")).volume?.accessibleTopology).toEqual([]);
  });
});

test("the most volumes of a node are reported", async () => {
  const csimux = await served({}, "w1", { maxVolumes: 7 });
  expect((await info(csimux)).maxVolumesPerNode).toBe(7n);
});

test("type node pins volumes of local drivers to the node that made them", async () => {
  const csimux = await served({ nodeTopology: { type: "node", prefix: "t.example" } }, "w1");
  const [own, other] = [{ "t.example/node": "w1" }, { "t.example/node": "w2" }];
  expect(await announces(csimux)).toBe(true);
  expect((await info(csimux)).accessibleTopology?.segments).toEqual(own);
  const { volume } = await create(csimux, "v1", [other, own]);
  expect(volume?.accessibleTopology.map(({ segments }) => segments)).toEqual([own]);
  expect(await codeOf(create(csimux, "v2", [other]))).toBe(status.resourceExhausted);
});

describe("a node with an unknown name", () => {
  test("does not register, creates no volume that would count as reachable from everywhere, and logs it at the start", async () => {
    const csimux = await served({ nodeTopology: { type: "node" } }, "");
    const { code, details } = await failureOf(info(csimux));
    expect([code, details]).toEqual([status.failedPrecondition, expect.stringContaining("CSI_NODE_ID")]);
    // It may exist since before a restart, so the answer is not final.
    expect(await codeOf(create(csimux, "v1"))).toBe(status.unavailable);
    expect(await csimux.daemon.log()).toContain("unknown node name: this node cannot");
    expect((await csimux.client.call(Identity.method.probe, {})).ready).toBe(true);
  });

  test("uses its host name if that is allowed", async () => {
    const csimux = await served({ nodeTopology: { type: "node" }, nodeId: { allowHostnameFallback: true } }, "");
    const { nodeId, accessibleTopology } = await info(csimux);
    expect(nodeId).toBe(`n=${hostname()}`);
    expect(accessibleTopology?.segments).toEqual({ "org.democratic-csi.topology/node": hostname() });
  });
});

test("a node name of more than 63 characters is refused with advice, because it is not a valid label value", async () => {
  const csimux = await served({ nodeTopology: { type: "node" } }, `${"a".repeat(40)}.${"b".repeat(40)}`);
  const { code, details } = await failureOf(info(csimux));
  expect([code, details]).toEqual([status.failedPrecondition, expect.stringContaining("type zone")]);
  // A volume that is pinned to a label that cannot exist could be used nowhere. It may exist since before a restart.
  expect(await codeOf(create(csimux, "v1"))).toBe(status.unavailable);
});

test("the topology of a node is logged once, with the rules that were ignored", async () => {
  const fromRegexp = [
    { topologyKey: "zone", source: "nodeName" },
    { topologyKey: "rack", source: "env", envName: "NO_SUCH_VARIABLE" },
  ];
  const csimux = await served({ nodeTopology: { type: "zone", prefix: "t.example", fromRegexp } }, "w1");
  await info(csimux);
  await info(csimux);
  const lines = (await csimux.daemon.log()).split("\n").filter(line => line.includes("node info reported"));
  expect(lines.map(line => JSON.parse(line))).toEqual([
    expect.objectContaining({
      nodeId: "n=w1",
      segments: { "t.example/zone": "w1" },
      ignored: ["rack: variable NO_SUCH_VARIABLE is not there"],
    }),
  ]);
});

test("a prefix that changes while csimux runs takes effect at the next start", async () => {
  const nodeTopology = { type: "node", prefix: "t.example" };
  const csimux = await served({ nodeTopology }, "w1");
  const { config, connections, folder } = csimux.sandbox;
  const base = join(folder, "storage", "one");
  const topology = [{ requirements: { node: "w1" } }];
  const connection = {
    ...{ driver: "local-hostpath", "local-hostpath": { shareBasePath: base, controllerBasePath: base } },
    proxy: { perDriver: { topology } },
  };
  await writeFile(join(connections, "one.yaml"), JSON.stringify(connection));
  const proxy = { configFolder: connections, nodeTopology: { ...nodeTopology, prefix: "other.example" } };
  await writeFile(config, JSON.stringify({ driver: "proxy", proxy }));
  const until = Date.now() + 25_000;
  for (let turn = 0; !(await csimux.daemon.log()).includes("restart to apply it"); turn++) {
    expect(Date.now()).toBeLessThan(until);
    const { volume } = await create(csimux, `v${turn}`);
    expect(volume?.accessibleTopology.map(({ segments }) => segments)).toEqual([{ "t.example/node": "w1" }]);
  }
  const { volume } = await create(csimux, "after", [{ "t.example/node": "w1" }]);
  expect(volume?.accessibleTopology.map(({ segments }) => segments)).toEqual([{ "t.example/node": "w1" }]);
}, 30_000);

test("csimux does not start with a rule that cannot work, and names it", async () => {
  const fromRegexp = [{ topologyKey: "zone", source: "nodeName", regex: "(a", template: "{match:1}" }];
  const starting = served({ nodeTopology: { type: "zone", fromRegexp } }, "w1").catch((error: unknown) =>
    String(error),
  );
  expect(await starting).toContain('rule 1 (key \\"zone\\")');
});
