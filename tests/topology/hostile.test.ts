import { afterAll, beforeAll, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Node } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { build } from "../../scripts/build.ts";
import { csiClient } from "../../scripts/client.ts";
import { startDaemon } from "../../scripts/daemon.ts";
import { makeSandbox } from "../../scripts/sandbox.ts";
import { spawned } from "../../scripts/spawned.ts";

let program = "";
let folder = "";

beforeAll(async () => {
  program = await build();
  folder = await mkdtemp(join(tmpdir(), "csimux-hostile-"));
}, 60_000);

afterAll(() => rm(folder, { recursive: true, force: true }));

// What patterns and files may do is in rules.test.ts.

test("csimux topology refuses a file of ten megabytes, with its name", async () => {
  const file = join(folder, "large");
  await writeFile(file, Buffer.alloc(10 << 20, "a"));
  const nodeTopology = {
    type: "zone",
    prefix: "t.example",
    fromRegexp: [{ topologyKey: "zone", source: "file", file }],
  };
  const config = join(folder, "proxy.yaml");
  await writeFile(config, JSON.stringify({ driver: "proxy", proxy: { configFolder: folder, nodeTopology } }));
  const argv = ["topology", "--config", config, "--node-name", "w1", "-o", "json"] as const;
  const { code, stdout } = await spawned([program, ...argv], { timeoutMs: 5_000 });
  const message = expect.stringContaining(`${file} is larger than 65536 bytes`);
  expect([code, JSON.parse(stdout).error]).toEqual([
    1,
    expect.objectContaining({ code: "FAILED_PRECONDITION", message }),
  ]);
});

test("NodeGetInfo fails while the file is a pipe, and succeeds once it is a file, without a restart", async () => {
  const sandbox = await makeSandbox("off", []);
  const file = join(sandbox.folder, "zone");
  execFileSync("mkfifo", [file]);
  const nodeTopology = {
    type: "zone",
    prefix: "t.example",
    fromRegexp: [{ topologyKey: "zone", source: "file", file }],
  };
  const proxy = { configFolder: sandbox.connections, nodeTopology };
  await writeFile(sandbox.config, JSON.stringify({ driver: "proxy", proxy }));
  const daemon = await startDaemon({ command: [program], sandbox });
  const client = csiClient(sandbox.socket);
  const before = await client.call(Node.method.nodeGetInfo, {}, 5_000).catch((error: unknown) => error);
  expect(before).toHaveProperty("code", 9);
  await rm(file);
  await mkdir(file);
  const meanwhile = await client.call(Node.method.nodeGetInfo, {}, 5_000).catch((error: unknown) => error);
  expect(meanwhile).toHaveProperty("code", 9);
  await rm(file, { recursive: true });
  await writeFile(file, "z1 \r\n");
  const after = await client.call(Node.method.nodeGetInfo, {}, 5_000);
  expect(after.accessibleTopology?.segments).toEqual({ "t.example/zone": "z1" });
  client.close();
  await daemon.stop();
  await sandbox.remove();
}, 60_000);
