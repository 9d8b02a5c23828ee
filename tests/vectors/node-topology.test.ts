import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Node } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { build } from "../../scripts/build.ts";
import { csiClient } from "../../scripts/client.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import type { Sandbox } from "../../scripts/sandbox.ts";
import { spawned } from "../../scripts/spawned.ts";
import { type NodeVector, vectors } from "./vectors.ts";

const { node_topology: published } = vectors();
const failedPrecondition = 9;

let program = "";
let folder = "";

beforeAll(async () => {
  program = await build();
  folder = await mkdtemp(join(tmpdir(), "csimux-node-"));
}, 60_000);

afterAll(() => rm(folder, { recursive: true, force: true }));

/** A main file for the vector; files of the vector lie below `root`. */
async function configured(vector: NodeVector, root: string): Promise<string> {
  await mkdir(root, { recursive: true });
  for (const [path, content] of Object.entries(vector.files ?? {})) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), content);
  }
  const config = join(root, "proxy.yaml");
  const moved = JSON.stringify({
    driver: "proxy",
    proxy: { configFolder: root, nodeTopology: vector.config },
  }).replaceAll(/"file":"([^"]*)"/g, (_, path: string) => `"file":${JSON.stringify(join(root, path))}`);
  await writeFile(config, moved);
  return config;
}

/**
 * Each source of a value, and each outcome: a topology, a main file that is refused when it is read or when its patterns are compiled,
 * and a node without one. All cases are in tests/topology/vectors.test.ts.
 */
const ways = ["T01", "T08", "T09", "T10", "T12", "T14", "T21", "T25", "T32"];
const titled = published.filter(({ id }) => ways.includes(id)).map(each => [each.id, each.note ?? "", each] as const);

describe("csimux topology", () => {
  test.each(titled)("%s: %s", async (id, _, vector) => {
    const root = join(folder, `cli-${id}`);
    const config = await configured(vector, root);
    const { CSI_NODE_ID: nodeName = "", ...env } = vector.env ?? {};
    const flags = Object.entries(env).flatMap(([name, value]) => ["--env", `${name}=${value}`]);
    if (vector.hostname !== undefined) flags.push("--hostname", vector.hostname);
    for (const [path, content] of Object.entries(vector.files ?? {})) {
      await rm(join(root, path));
      flags.push("--file", `${join(root, path)}=${content}`);
    }
    const argv = ["topology", "--config", config, "--node-name", nodeName, "--output", "json", ...flags] as const;
    const { code, stdout } = await spawned([program, ...argv]);
    const { expect: want } = vector;
    if ("segments" in want) {
      expect([code, JSON.parse(stdout).segments]).toEqual([0, want.segments]);
      expect(JSON.parse(stdout).nodeId).toBe(`n=${nodeName}`);
    } else {
      expect(code).toBe(1);
      expect(JSON.parse(stdout)).toHaveProperty("error.code", want.error);
    }
  });
});

describe("NodeGetInfo", () => {
  test.each(titled)(
    "%s: %s",
    async (id, _, vector) => {
      const root = join(folder, `rpc-${id}`);
      const config = await configured(vector, root);
      const socket = join(root, "s");
      const sandbox: Sandbox = {
        ...{ folder: root, socket, config, connections: root, stateDir: join(root, "state") },
        remove: async () => [],
      };
      const { expect: want } = vector;
      const starting = startDaemon({ command: [program], sandbox, env: vector.env ?? {} });
      if ("error" in want && want.error === "CONFIG") {
        const reason = await starting.then(
          () => "it started",
          (error: unknown) => String(error),
        );
        expect(reason).toContain("cannot start: ");
        return;
      }
      const daemon = await starting;
      const client = csiClient(socket);
      const answer = await client.call(Node.method.nodeGetInfo, {}).catch((error: unknown) => error);
      client.close();
      await daemon.stop();
      if ("error" in want) expect(answer).toHaveProperty("code", failedPrecondition);
      else if (vector.hostname === undefined)
        expect(answer).toHaveProperty("accessibleTopology.segments", { ...want.segments });
      // The real host name is the machine's; only its being used can be seen here.
      else
        expect(
          Object.keys((answer as { accessibleTopology: { segments: object } }).accessibleTopology.segments),
        ).toEqual(Object.keys(want.segments));
    },
    30_000,
  );
});
