import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { TLSSocket } from "node:tls";
import { dial, HttpError, type HttpSettings } from "../../lib/io/dial.ts";
import { type HttpRequest, httpClient } from "../../lib/io/http.ts";
import { type TlsServer, tlsServer } from "./tls-server.ts";

const never = new AbortController().signal;
let server: TlsServer;
let answer: (request: IncomingMessage, response: ServerResponse) => void;

beforeAll(async () => {
  server = await tlsServer({ answer: (request, response) => answer(request, response) });
});
beforeEach(() => {
  answer = (_, response) => response.end("hello");
});
afterAll(() => server.close());

/** The body of the answer, or how the request failed. */
async function outcome(
  changes: Partial<HttpSettings>,
  request: Partial<HttpRequest> = {},
  signal = never,
): Promise<string> {
  const client = httpClient({ ...server.settings, ...changes });
  try {
    return (await client.send({ method: "GET", path: "/", ...request }, signal)).body;
  } catch (error) {
    if (error instanceof HttpError) return error.failure;
    throw error;
  } finally {
    client.close();
  }
}

const fingerprintSeen = async (): Promise<string> => {
  const socket = (await dial({ ...server.settings, allowInsecure: true }, never)) as TLSSocket;
  const { fingerprint256 } = socket.getPeerCertificate();
  socket.destroy();
  return fingerprint256;
};

describe("an https server", () => {
  test("is accepted with its authority, a pinned certificate, or when any certificate is allowed", async () => {
    expect(await outcome({})).toBe("hello");
    expect(await outcome({ ca: undefined, allowInsecure: true })).toBe("hello");
    const fingerprint = await fingerprintSeen();
    expect(await outcome({ ca: undefined, fingerprint })).toBe("hello");
    expect(await outcome({ ca: undefined, fingerprint: fingerprint.replaceAll(":", "").toLowerCase() })).toBe("hello");
  });

  test("that is not the expected one is refused before it sees a request", async () => {
    const before = server.seen();
    expect(await outcome({ ca: undefined })).toBe("certificate");
    expect(await outcome({ ca: server.otherCa })).toBe("certificate");
    expect(await outcome({ fingerprint: "00".repeat(32) })).toBe("certificate");
    // The pin is the stricter of the two.
    expect(await outcome({ fingerprint: "00".repeat(32), allowInsecure: true })).toBe("certificate");
    expect(server.seen()).toBe(before);
  });
});

describe("a request", () => {
  test("sends method, path, headers and body, and returns any status", async () => {
    answer = (request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        response.writeHead(422);
        response.end(`${request.method} ${request.url} ${request.headers["x-a"]} ${Buffer.concat(chunks)}`);
      });
    };
    const client = httpClient(server.settings);
    const sent = { method: "PUT", path: "/a?b=1", headers: { "x-a": "c" }, body: "dé" } as const;
    const { status, body } = await client.send(sent, never);
    client.close();
    expect([status, body]).toEqual([422, "PUT /a?b=1 c dé"]);
  });

  test("without an answer reports how it failed", async () => {
    answer = request => void request.socket.destroy();
    expect(await outcome({}, { method: "POST" })).toBe("lost");
    answer = () => undefined;
    expect(await outcome({}, { timeoutMs: 100 })).toBe("timeout");
    expect(await outcome({}, {}, AbortSignal.timeout(100))).toBe("cancelled");
    answer = (_, response) => response.end("x".repeat(2000));
    expect(await outcome({}, { maxBytes: 1000 })).toBe("too-long");
    expect(await outcome({ port: 1 })).toBe("unreachable");
  });

  test("on a kept connection that the server has closed is sent again if it only reads", async () => {
    let count = 0;
    answer = (request, response) => {
      count++;
      if (count === 2) return void request.socket.destroy();
      response.end(`answer ${count}`);
    };
    const client = httpClient(server.settings);
    const read = async () => (await client.send({ method: "GET", path: "/" }, never)).body;
    expect(await read()).toBe("answer 1");
    expect(await read()).toBe("answer 3");
    client.close();
  });
});
