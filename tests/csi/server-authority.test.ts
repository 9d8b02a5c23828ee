import { afterEach, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { create } from "@bufbuild/protobuf";
import { Metadata, status } from "@grpc/grpc-js";
import * as fc from "fast-check";
import { hasOddAuthority, replaceAuthority } from "../../lib/csi/authority.ts";
import { Identity, ProbeRequestSchema, SnapshotMetadata } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { firstFrame, flag, frameType, makeFrame, preface } from "../../lib/csi/http2-frames.ts";
import { authorityFilter } from "../../lib/csi/tolerant.ts";
import { call, connectTo, gate, type Rig, startRig, stream, until } from "./rig.ts";

const { probe, getPluginInfo } = Identity.method;

let rig: Rig | undefined;
afterEach(async () => {
  await rig?.end();
  rig = undefined;
});

async function serve(): Promise<Rig> {
  rig = await startRig(
    {
      probe: () => ({ ready: true }),
      getPluginInfo: (_request, { requestHeader }) => ({ name: requestHeader.get("x-ask") ?? "" }),
    },
    {
      async *getMetadataAllocated() {
        for (let part = 0; part < 300; part++) yield { blockMetadata: Array.from({ length: 500 }, () => ({})) };
      },
    },
  );
  return rig;
}

/** What kubelet up to 1.28 sends: the path of the socket. */
const kubelet = "/var/lib/kubelet/plugins/org.example.csi/csi.sock";

const clientWith = (path: string, authority: string) =>
  connectTo(`unix:${path}`, { "grpc.default_authority": authority });

describe("the authority of a client", () => {
  const authorities = [
    kubelet,
    "/csi/csi.sock",
    "unix:///csi/csi.sock",
    "%2Fcsi%2Fcsi.sock",
    "%2fvar%2flib%2fcsi.sock:0",
    "csi.sock",
    "a b",
    "x@y",
    "localhost",
    "[::1]:1",
  ];
  for (const authority of authorities) {
    test(`may be "${authority}"`, async () => {
      const { path } = await serve();
      const client = clientWith(path, authority);
      expect((await call(client, probe, {})).answer?.ready).toBe(true);
      expect((await call(client, probe, {})).answer?.ready).toBe(true);
      client.close();
    });
  }

  test("may be a path over hundreds of calls whose headers fill the header table again and again", async () => {
    const { path } = await serve();
    const client = clientWith(path, kubelet);
    for (let round = 0; round < 300; round++) {
      const metadata = new Metadata();
      metadata.set("x-ask", `question-${round}-${"y".repeat(round)}`);
      const { answer } = await call(client, getPluginInfo, {}, { metadata, deadlineMs: 60_000 + round });
      expect(answer?.name).toBe(`question-${round}-${"y".repeat(round)}`);
    }
    client.close();
  });

  test("may be a path for parallel calls, large requests, refused ones and streams", async () => {
    const { path, server } = await serve();
    const client = clientWith(path, kubelet);
    const sized = (bytes: number) =>
      Object.assign(create(ProbeRequestSchema), {
        $unknown: [{ no: 99, wireType: 0, data: Buffer.from([1]) }, ...Array.from({ length: bytes }, () => filler)],
      });
    const filler = { no: 98, wireType: 0, data: Buffer.from([1]) };
    const many = await Promise.all(Array.from({ length: 200 }, () => call(client, probe, {})));
    expect(many.filter(({ code }) => code === 0)).toHaveLength(200);
    expect((await call(client, probe, sized(200_000))).code).toBe(0);
    expect((await call(client, probe, sized(2_000_000))).code).toBe(status.RESOURCE_EXHAUSTED);
    const { parts, ended } = stream(client, SnapshotMetadata.method.getMetadataAllocated, {});
    expect((await ended).code).toBe(status.OK);
    expect(parts).toHaveLength(300);
    client.close();
    await until(() => server.inFlight === 0, "all handlers to end");
  });

  test("may be a path when the server drains", async () => {
    const finish = gate();
    rig = await startRig({
      probe: async () => {
        await finish.opened;
        return { ready: true };
      },
    });
    const { server, path } = rig;
    const client = clientWith(path, kubelet);
    const running = Array.from({ length: 20 }, () => call(client, probe, {}));
    await until(() => server.inFlight === 20, "20 calls in flight");
    const stopped = server.stop(10_000);
    finish.open();
    expect((await Promise.all(running)).filter(({ code }) => code === 0)).toHaveLength(20);
    expect(await stopped).toEqual({ cut: 0 });
    client.close();
  });
});

/** A literal header field with a name of the static table (RFC 7541, section 6.2.1), value not Huffman-coded. */
const literal = (index: number, value: string): Buffer =>
  Buffer.concat([Buffer.from([0x40 | index, value.length]), Buffer.from(value)]);

/** A literal header field with its name spelled out. */
const named = (name: string, value: string): Buffer =>
  Buffer.concat([Buffer.from([0x40, name.length]), Buffer.from(name), Buffer.from([value.length]), Buffer.from(value)]);

/** The header block of a Probe request; 0x83 and 0x86 are ":method: POST" and ":scheme: http". */
const block = (authority: string): Buffer =>
  Buffer.concat([
    Buffer.from([0x83, 0x86]),
    literal(4, "/csi.v1.Identity/Probe"),
    literal(1, authority),
    named("content-type", "application/grpc"),
    named("te", "trailers"),
  ]);

const headers = (authority: string, flags = 0, before = Buffer.alloc(0), after = Buffer.alloc(0)): Buffer =>
  makeFrame(frameType.headers, flag.endHeaders | flags, 1, Buffer.concat([before, block(authority), after]));

function frameOf(bytes: Buffer) {
  const frame = firstFrame(bytes);
  if (!frame) throw new Error("no whole frame");
  return frame;
}

describe("a HEADERS frame", () => {
  test("with an odd authority gets a harmless one, the rest is untouched", () => {
    expect(replaceAuthority(frameOf(headers("/csi/csi.sock")))).toEqual(headers("c"));
  });

  test("with padding and priority is understood", () => {
    const before = Buffer.from([3, 0, 0, 0, 0, 16]);
    const make = (authority: string) => headers(authority, flag.padded | flag.priority, before, Buffer.from([1, 1, 1]));
    expect(replaceAuthority(frameOf(make("/csi/csi.sock")))).toEqual(make("c"));
  });

  test("with a long authority is understood", () => {
    const long = `/${"x".repeat(126)}`;
    const value = Buffer.concat([Buffer.from([0x41, 127, 0]), Buffer.from(long)]);
    const frame = makeFrame(frameType.headers, flag.endHeaders, 1, value);
    expect(replaceAuthority(frameOf(frame))).toEqual(
      makeFrame(frameType.headers, flag.endHeaders, 1, Buffer.from([0x41, 1, 0x63])),
    );
  });

  test("is odd only when it spells out an authority that is not localhost", () => {
    expect(hasOddAuthority(frameOf(headers("/csi")))).toBe(true);
    expect(hasOddAuthority(frameOf(headers("localhost")))).toBe(false);
    expect(hasOddAuthority(frameOf(headers("")))).toBe(false);
    const huffman = Buffer.from("4186a0e41d139d09", "hex");
    expect(hasOddAuthority(frameOf(makeFrame(frameType.headers, 4, 1, huffman)))).toBe(false);
    expect(hasOddAuthority(frameOf(makeFrame(frameType.headers, 4, 1, Buffer.from([0x83, 0x86]))))).toBe(false);
  });

  test("of random bytes never fails and keeps its head", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(255), (payload, flags) => {
        const frame = frameOf(makeFrame(frameType.headers, flags, 5, payload));
        hasOddAuthority(frame);
        const changed = frameOf(replaceAuthority(frame));
        expect([changed.type, changed.flags, changed.bytes.readUInt32BE(5)]).toEqual([1, flags, 5]);
      }),
    );
  });
});

describe("the filter of a connection", () => {
  const frames = fc.array(
    fc.oneof(
      fc.constantFrom("/a", "/csi/csi.sock", "localhost").map(authority => headers(authority)),
      fc
        .tuple(fc.constantFrom(0, 4, 6, 8), fc.uint8Array({ maxLength: 200 }))
        .map(([type, payload]) => makeFrame(type, 0, 3, payload)),
    ),
    { maxLength: 12 },
  );

  test("gives the same bytes however the input is cut", () => {
    fc.assert(
      fc.property(frames, fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 }), (list, cuts) => {
        const input = Buffer.concat(list);
        const expected = Buffer.concat(
          list.map(bytes => (bytes[3] === frameType.headers ? replaceAuthority(frameOf(bytes)) : bytes)),
        );
        const filter = authorityFilter();
        const out: Buffer[] = [];
        for (let at = 0, turn = 0; at < input.length; turn++) {
          const size = cuts[turn % cuts.length] ?? 1;
          out.push(...filter(input.subarray(at, at + size)));
          at += size;
        }
        expect(Buffer.concat(out).equals(expected)).toBe(true);
      }),
    );
  });
});

describe("a client that", () => {
  const settings = makeFrame(frameType.settings, 0, 0, Buffer.alloc(0));
  const acknowledge = makeFrame(frameType.settings, flag.ack, 0, Buffer.alloc(0));
  const body = makeFrame(0, 1, 1, Buffer.alloc(5));
  const ping = makeFrame(frameType.ping, 0, 0, Buffer.from("12345678"));

  /** A raw connection that collects what the server sends. */
  async function raw(path: string) {
    const socket = connect({ path });
    let got = Buffer.alloc(0);
    socket.on("data", (chunk: Buffer) => {
      got = Buffer.concat([got, chunk]);
    });
    await new Promise<void>(resolve => socket.once("connect", () => resolve()));
    const types = (): string[] => {
      const found: string[] = [];
      for (let rest = got; ; ) {
        const frame = firstFrame(rest);
        if (!frame) return found;
        found.push(`${frame.type}/${frame.flags}`);
        rest = rest.subarray(frame.bytes.length);
      }
    };
    return { socket, types };
  }

  const answered = (types: string[]): boolean => types.includes("1/5");

  for (const authority of ["localhost", "/csi/csi.sock"]) {
    test(`sends its request byte by byte is served (${authority})`, async () => {
      const { path } = await serve();
      const { socket, types } = await raw(path);
      for (const byte of Buffer.concat([preface, settings, headers(authority), acknowledge, body])) {
        socket.write(Buffer.from([byte]));
        if (byte % 16 === 0) await new Promise(resolve => setImmediate(resolve));
      }
      await until(() => answered(types()), "the answer");
      expect(types().filter(type => type === "3/0" || type === "7/0")).toEqual([]);
      socket.destroy();
    });

    test(`waits for SETTINGS before its request, and pings meanwhile, is served (${authority})`, async () => {
      const { path } = await serve();
      const { socket, types } = await raw(path);
      socket.write(Buffer.concat([preface, settings]));
      await until(() => types().includes("4/0"), "the SETTINGS of the server");
      socket.write(Buffer.concat([acknowledge, ping]));
      await until(() => types().includes("6/1"), "the answer to the ping");
      socket.write(Buffer.concat([headers(authority), body]));
      await until(() => answered(types()), "the answer");
      expect(types().filter(type => type === "6/1")).toHaveLength(1);
      expect(types().filter(type => type === "3/0" || type === "7/0")).toEqual([]);
      socket.destroy();
    });
  }

  test("goes away aborts the signal of its call, path or not", async () => {
    let reason: unknown;
    rig = await startRig({
      probe: (_request, { signal }) =>
        new Promise(resolve => {
          signal.addEventListener("abort", () => {
            reason = signal.reason;
            resolve({});
          });
        }),
    });
    const { server, path } = rig;
    const { socket } = await raw(path);
    socket.write(Buffer.concat([preface, settings, acknowledge, headers(kubelet), body]));
    await until(() => server.inFlight === 1, "the call");
    socket.destroy();
    await until(() => server.inFlight === 0, "the handler to end");
    expect(reason).toMatchObject({ name: "CsiError", code: "aborted" });
  });

  test("never makes a request does not hold the stop, and its connection is closed", async () => {
    const { path, server } = await serve();
    const { socket } = await raw(path);
    const closed = new Promise<void>(resolve => socket.once("close", () => resolve()));
    socket.write(Buffer.concat([preface, settings]));
    const start = performance.now();
    await server.stop(10_000);
    expect(performance.now() - start).toBeLessThan(300);
    await closed;
  });

  test("pings without end before its first request is handed to the server", async () => {
    const { path, client } = await serve();
    const { socket } = await raw(path);
    socket.on("error", () => {});
    socket.write(Buffer.concat([preface, settings, ...Array.from({ length: 20_000 }, () => ping)]));
    expect((await call(client(), probe, {})).code).toBe(0);
    socket.destroy();
  });
});
