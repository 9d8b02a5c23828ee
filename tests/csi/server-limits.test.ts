import { afterEach, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { connect as connectHttp2 } from "node:http2";
import { connect, type Socket } from "node:net";
import { create } from "@bufbuild/protobuf";
import { compressionAlgorithms, status } from "@grpc/grpc-js";
import { Identity, ProbeRequestSchema } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { makeFrame, preface } from "../../lib/csi/http2/http2-frames.ts";
import { later } from "../waiting.ts";
import { settings } from "./raw.ts";
import { call, connectTo, maxRequestBytes, type Rig, startRig, until } from "./rig.ts";

const { probe, getPluginInfo } = Identity.method;

let rig: Rig | undefined;
afterEach(async () => {
  await rig?.end();
  rig = undefined;
});

/** Serves Probe, and GetPluginInfo with a manifest of the given size in bytes. */
async function serve(answerBytes = 0): Promise<Rig> {
  rig = await startRig({
    probe: () => ({ ready: true }),
    getPluginInfo: () => ({ vendorVersion: "x".repeat(answerBytes) }),
  });
  return rig;
}

/** A request with an unknown field of the given size: every message may carry such. */
const padded = (bytes: number) =>
  Object.assign(create(ProbeRequestSchema), { $unknown: [{ no: 99, wireType: 2, data: lengthDelimited(bytes) }] });

function lengthDelimited(bytes: number): Uint8Array {
  const length: number[] = [];
  for (let left = bytes; left > 0; left >>>= 7) length.push((left & 127) | (left > 127 ? 128 : 0));
  return Buffer.concat([Buffer.from(length), Buffer.alloc(bytes)]);
}

describe("sizes", () => {
  test("a request of 5 MB gets RESOURCE_EXHAUSTED and the connection stays usable", async () => {
    const { client, server } = await serve();
    const ours = client();
    expect((await call(ours, probe, {})).code).toBe(0);
    for (let round = 0; round < 3; round++) {
      const refused = await call(ours, probe, padded(5_000_000));
      expect(refused.code).toBe(status.RESOURCE_EXHAUSTED);
      expect((await call(ours, probe, {})).code).toBe(0);
    }
    expect(server.inFlight).toBe(0);
  });

  test("a request just below the limit is served", async () => {
    const { client } = await serve();
    expect((await call(client(), probe, padded(maxRequestBytes - 100))).code).toBe(0);
  });

  test("an answer of 12 MB arrives", async () => {
    const { client } = await serve(12_000_000);
    expect((await call(client(), getPluginInfo, {})).answer?.vendorVersion).toHaveLength(12_000_000);
  });

  test("a compressed request is served, and refused when it unpacks to more than the limit", async () => {
    const { path } = await serve();
    const ours = connectTo(`unix:${path}`, { "grpc.default_compression_algorithm": compressionAlgorithms.gzip });
    expect((await call(ours, probe, padded(100_000))).code).toBe(0);
    expect((await call(ours, probe, padded(20_000_000))).code).toBe(status.RESOURCE_EXHAUSTED);
    expect((await call(ours, probe, {})).code).toBe(0);
    ours.close();
  });
});

/** Sends bytes on a new connection and resolves when the server hangs up, or after a moment. */
async function send(path: string, bytes: Buffer): Promise<void> {
  const socket: Socket = connect({ path });
  socket.on("error", () => {});
  socket.write(bytes);
  await new Promise(resolve => {
    socket.once("close", resolve);
    // A client that leaves without waiting for an answer.
    later(() => resolve(undefined), 20);
  });
  socket.destroy();
}

describe("garbage on the socket", () => {
  const cases: readonly [string, Buffer][] = [
    ["random bytes", randomBytes(10_000)],
    ["HTTP/1.1", Buffer.from("GET / HTTP/1.1\r\nHost: x\r\n\r\n")],
    ["a TLS hello", Buffer.from("16030100a5010000a10303", "hex")],
    ["null bytes", Buffer.alloc(1000)],
    ["a preface, then noise", Buffer.concat([preface, randomBytes(1000)])],
    ["a frame larger than allowed", Buffer.concat([preface, settings, makeFrame(0, 0, 1, Buffer.alloc(1 << 20))])],
    ["bad settings", Buffer.concat([preface, makeFrame(4, 0, 0, Buffer.alloc(5))])],
    ["headers on stream 0", Buffer.concat([preface, settings, makeFrame(1, 5, 0, Buffer.from([0x82]))])],
    ["broken header compression", Buffer.concat([preface, settings, makeFrame(1, 5, 1, Buffer.alloc(40, 0xff))])],
    ["data on an idle stream", Buffer.concat([preface, settings, makeFrame(0, 1, 7, Buffer.alloc(10))])],
    ["half a frame", Buffer.concat([preface, settings, makeFrame(1, 5, 1, Buffer.alloc(40)).subarray(0, 20)])],
  ];
  for (const [what, bytes] of cases) {
    test(`${what}: old and new connections still answer`, async () => {
      const { client, path } = await serve();
      const old = client();
      await call(old, probe, {});
      await send(path, bytes);
      expect((await call(old, probe, {})).code).toBe(0);
      expect((await call(client(), probe, {})).code).toBe(0);
    });
  }
});

/** One raw HTTP/2 request; resolves with the response headers. */
async function request(path: string, headers: Record<string, string>, body?: Buffer): Promise<Record<string, unknown>> {
  const session = connectHttp2("http://localhost", { createConnection: () => connect({ path }) });
  session.on("error", () => {});
  const stream = session.request({ ":method": "POST", "content-type": "application/grpc", te: "trailers", ...headers });
  const answer = new Promise<Record<string, unknown>>(resolve => {
    stream.on("error", error => resolve({ error: String(error) }));
    stream.on("response", resolve);
  });
  stream.end(body);
  stream.resume();
  const found = await answer;
  session.destroy();
  return found;
}

describe("odd requests", () => {
  const path = "/csi.v1.Identity/Probe";
  const odd: readonly [string, Record<string, string>, Buffer | undefined, unknown][] = [
    ["a path that is not served", { ":path": "/csi.v1.Identity/Nothing" }, undefined, "12"],
    ["a path with bytes above ASCII", { ":path": "/csi.v1.Identity/Pr\u00f6be\u0080" }, undefined, undefined],
    ["a path of 10,000 characters", { ":path": `/${"x".repeat(10_000)}` }, undefined, undefined],
    ["__proto__ as path", { ":path": "__proto__" }, undefined, undefined],
    ["another content type", { ":path": path, "content-type": "text/plain" }, undefined, undefined],
    ["no message", { ":path": path }, undefined, "12"],
    ["two messages", { ":path": path }, Buffer.alloc(10), undefined],
    ["bytes that are not a message", { ":path": path }, Buffer.from([0, 0, 0, 0, 2, 0xff, 0xff]), "13"],
    ["a message that lies about its length", { ":path": path }, Buffer.from([0, 0, 0, 0, 200, 1]), undefined],
    ["a compressed flag without encoding", { ":path": path }, Buffer.from([1, 0, 0, 0, 2, 1, 1]), undefined],
    ["a timeout that is not a number", { ":path": path, "grpc-timeout": "soon" }, Buffer.alloc(5), "13"],
  ];
  for (const [what, headers, body, code] of odd) {
    test(`${what}: refused, and the next call is served`, async () => {
      const { client, path: socket, server } = await serve();
      const found = await request(socket, headers, body);
      if (code !== undefined) expect(String(found["grpc-status"])).toBe(String(code));
      expect((await call(client(), probe, {})).code).toBe(0);
      await until(() => server.inFlight === 0, "all handlers to end");
    });
  }
});
