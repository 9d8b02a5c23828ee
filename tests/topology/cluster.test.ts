import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "../../scripts/build.ts";
import { spawned } from "../../scripts/spawned.ts";
import { makeAuthority, makeServer } from "../io/certificates.ts";

let program = "";
let folder = "";
let server: Server;
let answer: (response: ServerResponse) => void;

const labels = (given: Readonly<Record<string, string>>) => (response: ServerResponse) =>
  response.end(JSON.stringify({ kind: "Node", metadata: { name: "w1", labels: given } }));

beforeAll(async () => {
  program = await build();
  folder = await mkdtemp(join(tmpdir(), "csimux-cluster-"));
  makeAuthority(folder, "ca");
  const { cert, key } = makeServer(folder, "ca");
  await writeFile(join(folder, "token"), "t0ken");
  const nodeTopology = {
    type: "zone",
    prefix: "t.example",
    fromRegexp: [{ topologyKey: "zone", source: "nodeLabel", label: "topology.kubernetes.io/zone" }],
  };
  const main = { driver: "proxy", proxy: { configFolder: folder, nodeTopology } };
  await writeFile(join(folder, "proxy.yaml"), JSON.stringify(main));
  server = createServer({ cert: await readFile(cert), key: await readFile(key) }, (_, response) => answer(response));
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve));
}, 60_000);

afterAll(async () => {
  server.closeAllConnections();
  server.close();
  await rm(folder, { recursive: true, force: true });
});

/** Mounts the service account where kubelet does, seen by the program alone, and runs it. */
const inPod = `mount -t tmpfs tmpfs /var/run && mkdir -p "$0" && cp "$1/ca.crt" "$1/token" "$0" && shift && exec "$@"`;
const account = "/var/run/secrets/kubernetes.io/serviceaccount";

async function topology(): Promise<{ readonly code: number; readonly result: Record<string, unknown> }> {
  const address = server.address();
  const port = typeof address === "object" && address ? address.port : 0;
  const command = [program, "topology", "--config", join(folder, "proxy.yaml"), "--node-name", "w1", "-o", "json"];
  const argv = ["unshare", "--mount", "sh", "-c", inPod, account, folder, ...command] as const;
  const env = { KUBERNETES_SERVICE_HOST: "127.0.0.1", KUBERNETES_SERVICE_PORT: String(port) };
  const { code, stdout, stderr } = await spawned([...argv], { env, timeoutMs: 20_000 });
  if (stdout === "") throw new Error(stderr);
  return { code, result: JSON.parse(stdout) };
}

describe.skipIf(process.getuid?.() !== 0)("a rule that reads a label of the node, in a pod,", () => {
  test("takes it from the cluster's API", async () => {
    answer = labels({ "topology.kubernetes.io/zone": "z1" });
    const { code, result } = await topology();
    expect([code, result["segments"]]).toEqual([0, { "t.example/zone": "z1" }]);
  });

  test("fails while the node lacks the label, so that registration is retried", async () => {
    answer = labels({ other: "z1" });
    const { code, result } = await topology();
    expect(code).toBe(1);
    expect(result).toHaveProperty("error.code", "FAILED_PRECONDITION");
    expect(JSON.stringify(result)).toContain("no label topology.kubernetes.io/zone");
  });

  test("gives up after five seconds when the API takes the request and never answers", async () => {
    answer = () => undefined;
    const from = performance.now();
    const { code, result } = await topology();
    expect(code).toBe(2);
    expect(result).toHaveProperty("error.code", "UNAVAILABLE");
    expect(performance.now() - from).toBeLessThan(10_000);
  }, 30_000);
});
