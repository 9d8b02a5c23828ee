import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import { createServer as createSocketServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CsiError } from "../../lib/core/errors.ts";
import { clusterFacts } from "../../lib/daemon/cluster-facts.ts";
import { type ClusterAccess, listObjects, nodeLabels } from "../../lib/io/kube.ts";
import { makeAuthority, makeServer } from "./certificates.ts";

let folder = "";
let server: Server;
let access: ClusterAccess;
let answer: (request: IncomingMessage, response: ServerResponse) => void;

const json = (status: number, body: unknown) => (_: IncomingMessage, response: ServerResponse) => {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
};

const node = (labels: Record<string, string>) => ({ kind: "Node", metadata: { name: "w1", labels } });

const portOf = (address: ReturnType<Server["address"]>): number =>
  typeof address === "object" && address !== null ? address.port : 0;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "csimux-kube-"));
  makeAuthority(folder, "ca");
  makeAuthority(folder, "other");
  const { cert, key } = makeServer(folder, "ca");
  server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (request, response) =>
    answer(request, response),
  );
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve));
  access = { host: "127.0.0.1", port: portOf(server.address()), folder, timeoutMs: 20_000 };
});

beforeEach(() => {
  writeFileSync(join(folder, "token"), "first\n");
});

afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

const failureOf = async (work: Promise<unknown>): Promise<CsiError> => {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof CsiError) return error;
  throw new Error(`expected a CsiError, got ${String(error)}`);
};

describe("labels of a node", () => {
  test("come from the node's object, asked for with the service account's token", async () => {
    const seen: (string | undefined)[] = [];
    answer = (request, response) => {
      seen.push(request.method, request.url, request.headers.authorization);
      json(200, node({ "topology.kubernetes.io/zone": "z1" }))(request, response);
    };
    expect(await nodeLabels("w1", access)).toEqual({ "topology.kubernetes.io/zone": "z1" });
    expect(seen).toEqual(["GET", "/api/v1/nodes/w1", "Bearer first"]);
  });

  test("are asked for with the token that the file holds now", async () => {
    const seen: (string | undefined)[] = [];
    answer = (request, response) => {
      seen.push(request.headers.authorization);
      json(200, node({}))(request, response);
    };
    await nodeLabels("w1", access);
    writeFileSync(join(folder, "token"), "second");
    await nodeLabels("w1", access);
    expect(seen).toEqual(["Bearer first", "Bearer second"]);
  });

  test("are empty for a node without labels", async () => {
    answer = json(200, { metadata: { name: "w1" } });
    expect(await nodeLabels("w1", access)).toEqual({});
  });

  for (const status of [401, 403]) {
    test(`are a failed precondition that names the missing permission on HTTP ${status}`, async () => {
      answer = json(status, { message: "no" });
      const { code, message } = await failureOf(nodeLabels("w1", access));
      expect(code).toBe("failed-precondition");
      expect(message).toContain('apiGroups: [""], resources: [nodes], verbs: [get]');
    });
  }

  test("are a failed precondition for a node that the cluster does not know", async () => {
    answer = json(404, { message: "not found" });
    expect((await failureOf(nodeLabels("w1", access))).code).toBe("failed-precondition");
  });

  for (const status of [429, 500, 503, 302]) {
    test(`are unavailable on HTTP ${status}`, async () => {
      answer = json(status, { message: "later" });
      expect((await failureOf(nodeLabels("w1", access))).code).toBe("unavailable");
    });
  }

  for (const [what, body] of [
    ["no JSON", "<html>"],
    ["another node", JSON.stringify({ metadata: { name: "w2", labels: {} } })],
    ["a list", "[]"],
  ] as const) {
    test(`are unavailable when the answer is ${what}`, async () => {
      answer = (_, response) => response.end(body);
      expect((await failureOf(nodeLabels("w1", access))).code).toBe("unavailable");
    });
  }

  test("are unavailable, in time, when the API never answers", async () => {
    answer = () => undefined;
    const from = performance.now();
    const { code, message } = await failureOf(nodeLabels("w1", { ...access, timeoutMs: 200 }));
    expect([code, message]).toEqual([
      "unavailable",
      `the cluster's API cannot be used: https://127.0.0.1:${access.port}: no answer within 200 ms`,
    ]);
    expect(performance.now() - from).toBeLessThan(10_000);
  });

  test("are unavailable, in time, when the answer stops in the middle", async () => {
    answer = (_, response) => {
      response.writeHead(200);
      response.write('{"metadata":');
    };
    const from = performance.now();
    expect((await failureOf(nodeLabels("w1", { ...access, timeoutMs: 200 }))).code).toBe("unavailable");
    expect(performance.now() - from).toBeLessThan(10_000);
  });

  test("are unavailable, in time, when the server takes the connection and says nothing", async () => {
    const silent = createSocketServer(() => undefined);
    await new Promise<void>(resolve => silent.listen(0, "127.0.0.1", resolve));
    const port = portOf(silent.address());
    const from = performance.now();
    expect((await failureOf(nodeLabels("w1", { ...access, port, timeoutMs: 200 }))).code).toBe("unavailable");
    expect(performance.now() - from).toBeLessThan(10_000);
    silent.close();
  });

  test("are unavailable when nothing listens", async () => {
    const closed = createSocketServer(() => undefined);
    await new Promise<void>(resolve => closed.listen(0, "127.0.0.1", resolve));
    const port = portOf(closed.address());
    await new Promise<void>(resolve => closed.close(() => resolve()));
    expect((await failureOf(nodeLabels("w1", { ...access, port }))).code).toBe("unavailable");
  });

  test("are unavailable when the answer is endless", async () => {
    answer = (_, response) => {
      const more = () => {
        while (response.write(Buffer.alloc(65_536, "x")));
        response.once("drain", more);
      };
      more();
    };
    const { code, message } = await failureOf(nodeLabels("w1", { ...access, timeoutMs: 10_000 }));
    expect(code).toBe("unavailable");
    expect(message).toContain("longer than");
  });

  test("are not taken from a server that another authority vouches for, and it never sees the token", async () => {
    const other = mkdtempSync(join(tmpdir(), "csimux-kube-"));
    writeFileSync(join(other, "ca.crt"), readFileSync(join(folder, "other.crt")));
    writeFileSync(join(other, "token"), "secret");
    let seen = 0;
    answer = (request, response) => {
      seen++;
      json(200, node({}))(request, response);
    };
    expect((await failureOf(nodeLabels("w1", { ...access, folder: other }))).code).toBe("unavailable");
    expect(seen).toBe(0);
    rmSync(other, { recursive: true });
  });

  test("are a failed precondition without a service account", async () => {
    const { code, message } = await failureOf(nodeLabels("w1", { ...access, folder: join(folder, "none") }));
    expect(code).toBe("failed-precondition");
    expect(message).toContain("service account");
  });

  for (const name of ["", "../secrets", "a/b", "W1", "w1?watch=1", "a".repeat(254)]) {
    test(`are never asked for under the name ${JSON.stringify(name.slice(0, 20))}`, async () => {
      answer = json(200, node({}));
      expect((await failureOf(nodeLabels(name, access))).code).toBe("failed-precondition");
    });
  }
});

describe("listings of the cluster", () => {
  test("are read page by page; nodes have their labels, PersistentVolumes of the driver their claims", async () => {
    const asked: string[] = [];
    const volume = (name: string, driver: string) => ({
      metadata: { name },
      spec: { csi: { driver, volumeHandle: `v:a/${name}` }, claimRef: { namespace: "shop", name: "data" } },
    });
    answer = (request, response) => {
      const { pathname, searchParams } = new URL(request.url ?? "", "https://api");
      asked.push(
        `${pathname} ${searchParams.get("continue")} ${request.headers.accept?.includes("PartialObjectMetadataList")}`,
      );
      if (pathname === "/api/v1/nodes")
        return json(200, { items: [node({ zone: "z1" })], metadata: {} })(request, response);
      const isFirst = !searchParams.has("continue");
      const items = [isFirst ? volume("one", "csimux") : volume("two", "other"), null, { spec: 3 }];
      json(200, { items, metadata: isFirst ? { continue: "next &page" } : {} })(request, response);
    };
    expect(await clusterFacts("csimux", access, folder)).toEqual({
      nodes: [{ name: "w1", labels: { zone: "z1" } }],
      claims: [{ handle: "v:a/one", volume: "one", claim: "shop/data" }],
      problems: [],
    });
    expect(asked.sort()).toEqual([
      "/api/v1/nodes null true",
      "/api/v1/persistentvolumes next &page false",
      "/api/v1/persistentvolumes null false",
    ]);
  });

  test("may have 1,000 PersistentVolumes of 60 KB each", async () => {
    const fields = "x".repeat(60_000);
    answer = (request, response) => {
      const { searchParams } = new URL(request.url ?? "", "https://api");
      const from = Number(searchParams.get("continue") ?? 0);
      const to = Math.min(1_000, from + Number(searchParams.get("limit")));
      const items = Array.from({ length: to - from }, (_, index) => ({
        metadata: { name: `pv-${from + index}`, fields },
      }));
      json(200, { items, metadata: to < 1_000 ? { continue: String(to) } : {} })(request, response);
    };
    expect(await listObjects("/api/v1/persistentvolumes", false, access)).toHaveLength(1_000);
  });

  test("that the service account may not read, and answers of another form, are unknown, not empty, with the reason", async () => {
    answer = (request, response) =>
      json(request.url?.includes("nodes") ? 403 : 200, { kind: "Status" })(request, response);
    const facts = await clusterFacts("csimux", access, folder);
    expect([facts.nodes, facts.claims]).toEqual([undefined, undefined]);
    expect([...facts.problems].sort()).toEqual([
      "the cluster's API answered HTTP 200 for /api/v1/persistentvolumes",
      "the service account may not list /api/v1/nodes (HTTP 403)",
    ]);
    const none = await clusterFacts("csimux", access, `${folder}/none`);
    expect(none.problems[0]).toContain("automountServiceAccountToken");
  });

  test("a list without an end is refused, because a part of it would look like the whole", async () => {
    const items = Array.from({ length: 10_000 }, (_, index) => index);
    answer = json(200, { items, metadata: { continue: "more" } });
    await expect(listObjects("/api/v1/nodes", true, access)).rejects.toMatchObject({
      code: "unavailable",
      message: expect.stringContaining("20000"),
    });
  });
});
