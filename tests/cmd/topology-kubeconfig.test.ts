import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import { makeAuthority, makeServer } from "../io/certificates.ts";
import { TopologyWorld } from "./topology-world.ts";

let world: TopologyWorld;
let server: Server;
let config = "";
let asked: string[] = [];
let status = 200;

const node = (name: string) => ({ metadata: { name, labels: { "kubernetes.io/hostname": name } }, status: {} });
const ofClass = (name: string, parameters: object) => ({
  metadata: { name },
  parameters,
  volumeBindingMode: "WaitForFirstConsumer",
});
/** As the API answers: the items of a list do not name their kind. */
const answers: Readonly<Record<string, object>> = {
  "/k8s/api/v1/nodes": { kind: "NodeList", items: [node("e1"), node("w1")] },
  "/k8s/apis/storage.k8s.io/v1/storageclasses": {
    kind: "StorageClassList",
    items: [ofClass("fast", { connection: "east" }), ofClass("other", { type: "ssd" })],
  },
};

beforeAll(async () => {
  world = new TopologyWorld();
  makeAuthority(world.folder, "ca");
  const { cert, key } = makeServer(world.folder, "ca");
  const files = { cert: readFileSync(cert), key: readFileSync(key), ca: readFileSync(`${world.folder}/ca.crt`) };
  server = createServer({ ...files, requestCert: true, rejectUnauthorized: false }, (request, response) => {
    const { authorized } = request.socket as unknown as { authorized: boolean };
    asked.push(`${request.url} ${request.headers.authorization ?? (authorized ? "certificate" : "nobody")}`);
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(answers[request.url ?? ""] ?? {}));
  });
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve));
  config = world.file(
    "proxy.yaml",
    `driver: proxy
proxy:
  configFolder: connections
  nodeTopology:
    type: zone
    prefix: t.example
    fromRegexp: [{ topologyKey: zone, source: nodeName, regex: '([ew])[0-9]+', template: '{match:1}' }]
`,
  );
  world.file(
    "connections/east.yaml",
    "driver: nfs-client\nnfs: { shareHost: x, shareBasePath: /x }\nproxy: { perDriver: { topology: [{ requirements: { zone: e } }] } }\n",
  );
  world.file("token", "from-a-file\n");
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  world.remove();
});
beforeEach(() => {
  asked = [];
  status = 200;
});

/** A file of kubectl with this user; the second context is the current one. */
function kubeconfig(user: object, cluster: object = {}): string {
  const { port } = server.address() as AddressInfo;
  const own = { server: `https://127.0.0.1:${port}/k8s`, "certificate-authority": "ca.crt", ...cluster };
  return world.file(
    "kubeconfig",
    JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      "current-context": "second",
      contexts: [
        { name: "first", context: { cluster: "no", user: "no" } },
        { name: "second", context: { cluster: "here", user: "me" } },
      ],
      clusters: [{ name: "here", cluster: own }],
      users: [{ name: "me", user }],
    }),
  );
}

const run = (path: string, ...more: readonly string[]) =>
  world.run(["--config", config, "--kubeconfig", path, ...more]);
const base64 = (name: string) => readFileSync(`${world.folder}/${name}`).toString("base64");

describe("csimux topology --kubeconfig", () => {
  test("asks the cluster for its nodes and for the classes of csimux", async () => {
    const { code, out, err } = await run(kubeconfig({ token: "secret" }));
    expect(err).toBe("");
    expect(out).toBe(`2 of 2 nodes can register, in 2 places by zone

connection  nodes  reached from
east        1/2    zone=e

w1 (zone=w) reaches no connection

class fast (connection: east) can be used on 1 of 2 nodes: e1
`);
    expect(code).toBe(0);
    expect(asked.sort()).toEqual([
      "/k8s/api/v1/nodes Bearer secret",
      "/k8s/apis/storage.k8s.io/v1/storageclasses Bearer secret",
    ]);
  });

  test.each<readonly [string, () => object, () => object, string]>([
    ["a token in a file beside it", () => ({ tokenFile: "token" }), () => ({}), "Bearer from-a-file"],
    [
      "a certificate as files",
      () => ({ "client-certificate": "server.crt", "client-key": "server.key" }),
      () => ({}),
      "certificate",
    ],
    [
      "a certificate and an authority as data",
      () => ({ "client-certificate-data": base64("server.crt"), "client-key-data": base64("server.key") }),
      () => ({ "certificate-authority-data": base64("ca.crt"), "certificate-authority": undefined }),
      "certificate",
    ],
    [
      "a server whose certificate is not to be checked",
      () => ({ token: "t" }),
      () => ({ "certificate-authority": undefined, "insecure-skip-tls-verify": true }),
      "Bearer t",
    ],
  ])("logs in with %s", async (_, user, cluster, by) => {
    const { code, err } = await run(kubeconfig(user(), cluster()));
    expect([code, err]).toEqual([0, ""]);
    expect(asked.every(each => each.endsWith(` ${by}`))).toBe(true);
  });

  test.each<readonly [string, object, object, string]>([
    ["a user that a program logs in", { exec: { command: "aws" } }, {}, "kubectl get nodes -o json"],
    ["a user of an old plugin", { "auth-provider": { name: "gcp" } }, {}, "auth-provider"],
    ["a user with a password", { username: "u", password: "hunter2" }, {}, "kubectl get nodes -o json"],
    ["a certificate without its key", { "client-certificate": "server.crt" }, {}, "client-key"],
    ["a file that is not there", { tokenFile: "absent" }, {}, "absent"],
    ["a server that is no URL", { token: "t" }, { server: "here" }, '"here"'],
    ["a server behind a proxy", { token: "t" }, { "proxy-url": "http://p" }, "proxy-url"],
    ["a certificate that nobody vouches for", { token: "t" }, { "certificate-authority": undefined }, "certificate"],
  ])("refuses %s in words", async (_, user, cluster, word) => {
    const { code, out, err } = await run(kubeconfig(user, cluster));
    expect([code, out]).toEqual([2, ""]);
    expect(err).toContain(word);
    expect(err).not.toContain("hunter2");
    expect(asked).toEqual([]);
  });

  test("says what the user may not do", async () => {
    status = 403;
    const { code, err } = await run(kubeconfig({ token: "t" }));
    expect(err).toContain("HTTP 403");
    expect(err).toContain("may not list them");
    expect(code).toBe(2);
  });

  test("refuses a file that is none of kubectl", async () => {
    for (const text of ["", "just words", "current-context: x\n"]) {
      const { code, err } = await run(world.file("other", text));
      expect(err).toStartWith(`csimux: ${world.folder}/other: `);
      expect(code).toBe(2);
    }
  });
});
