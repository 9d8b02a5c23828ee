import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { WebSocket } from "ws";
import { HttpError } from "../../lib/io/dial.ts";
import { openRpc, RpcError, type RpcSocket } from "../../lib/io/rpc.ts";
import { passing } from "../waiting.ts";
import { type TlsServer, tlsServer } from "./tls-server.ts";

const never = new AbortController().signal;

interface Request {
  readonly id: number;
  readonly method: string;
  readonly params: readonly unknown[];
}

let server: TlsServer;
let received: (request: Request, socket: WebSocket) => void;

beforeAll(async () => {
  server = await tlsServer({
    socket: socket => socket.on("message", data => received(JSON.parse(data.toString()), socket)),
  });
});
beforeEach(() => {
  received = ({ id, params }, socket) => socket.send(JSON.stringify({ jsonrpc: "2.0", id, result: params }));
});
afterAll(() => server.close());

async function failureOf(work: Promise<unknown>): Promise<string> {
  try {
    return `answered ${JSON.stringify(await work)}`;
  } catch (error) {
    return error instanceof HttpError ? error.failure : String(error);
  }
}

const withSocket = async (work: (rpc: RpcSocket) => Promise<void>, maxRequest = 1000): Promise<void> => {
  const rpc = await openRpc(server.settings, { path: "/socket", maxRequest: () => maxRequest }, never);
  try {
    await work(rpc);
  } finally {
    rpc.close();
    await rpc.closed;
  }
};

describe("calls over a WebSocket", () => {
  test("are answered in any order, and an error of the server is an RpcError with its data", async () => {
    const waiting: (() => void)[] = [];
    received = ({ id, method }, socket) => {
      const say = (rest: object) => socket.send(JSON.stringify({ jsonrpc: "2.0", id, ...rest }));
      waiting.unshift(() =>
        method === "bad"
          ? say({ error: { code: -32602, message: "no", data: { error: 22 } } })
          : say({ result: method }),
      );
      if (waiting.length === 3) for (const answer of waiting) answer();
    };
    await withSocket(async rpc => {
      const [one, bad, two] = await Promise.allSettled(["one", "bad", "two"].map(name => rpc.call(name, [], never)));
      expect([one, two]).toEqual([
        { status: "fulfilled", value: "one" },
        { status: "fulfilled", value: "two" },
      ]);
      const error = (bad as PromiseRejectedResult).reason;
      expect(error).toBeInstanceOf(RpcError);
      expect([error.code, error.data]).toEqual([-32602, { error: 22 }]);
    });
  });

  test("without an answer end as lost with the socket, later ones as refused", async () => {
    received = (_, socket) => socket.terminate();
    await withSocket(async rpc => {
      expect(await failureOf(rpc.call("m", [], never))).toBe("lost");
      expect(await rpc.closed).toContain("closed");
      expect(await failureOf(rpc.call("m", [], never))).toBe("refused");
    });
  });

  test("end at once when cancelled, and one that is too long is never sent", async () => {
    const methods: string[] = [];
    received = ({ method }) => void methods.push(method);
    await withSocket(async rpc => {
      expect(await failureOf(rpc.call("slow", [], AbortSignal.timeout(50)))).toBe("cancelled");
      expect(await failureOf(rpc.call("gone", [], AbortSignal.abort()))).toBe("cancelled");
      expect(await failureOf(rpc.call("long", ["x".repeat(1000)], never))).toBe("too-long");
      expect(methods).toEqual(["slow"]);
    });
  });

  test("accept answers of many megabytes", async () => {
    received = ({ id }, socket) => socket.send(JSON.stringify({ jsonrpc: "2.0", id, result: "x".repeat(20 << 20) }));
    await withSocket(async rpc => {
      expect(String(await rpc.call("m", [], never)).length).toBe(20 << 20);
    });
  });
});

test("a missing server, a wrong one and one without a WebSocket are distinguished", async () => {
  const open = (changes: object, path = "/socket") =>
    failureOf(openRpc({ ...server.settings, ...changes }, { path, maxRequest: () => 1000 }, never));
  expect(await open({}, "/absent")).toBe("refused");
  expect(await open({ port: 1 })).toBe("unreachable");
  const before = server.seen();
  expect(await open({ ca: server.otherCa })).toBe("certificate");
  expect(server.seen()).toBe(before);
});

test("a vanished peer is detected by an unanswered ping, and one that answers is kept", async () => {
  const options = { maxRequest: () => 1000, pingMs: 20, pongMs: 60 };
  const silent = await openRpc(server.settings, { ...options, path: "/mute" }, never);
  expect(await failureOf(silent.call("m", [], never))).toBe("lost");
  const alive = await openRpc(server.settings, { ...options, pongMs: 600, path: "/socket" }, never);
  await silent.closed;
  // Several pings, each of which may take 600 ms.
  await passing(800);
  expect(await failureOf(alive.call("m", [1], never))).toBe("answered [1]");
  alive.close();
  expect(await alive.closed).toContain("1000");
});
