import { afterEach, describe, expect, test } from "bun:test";
import { create } from "@bufbuild/protobuf";
import { Metadata, status } from "@grpc/grpc-js";
import { Identity, ProbeRequestSchema, SnapshotMetadata } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { hasOddAuthority, replaceAuthority } from "../../lib/csi/http2/authority.ts";
import { flag, frameType, makeFrame, preface } from "../../lib/csi/http2/http2-frames.ts";
import { authorityFilter } from "../../lib/csi/tolerant.ts";
import { fc } from "../fast-check.ts";
import {
  acknowledge,
  answered,
  block,
  body,
  frameOf,
  headers,
  kubelet,
  raw,
  settings,
  spelledAuthority,
} from "./raw.ts";
import { call, connectTo, gate, metadataOf, type Rig, startRig, stream, until } from "./rig.ts";

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
      getPluginInfo: (_request, context) => ({ name: String(metadataOf(context).get("x-ask")[0]) }),
    },
    {
      async *getMetadataAllocated() {
        for (let part = 0; part < 300; part++) yield { blockMetadata: Array.from({ length: 500 }, () => ({})) };
      },
    },
  );
  return rig;
}

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

  test.each([kubelet, "csi%2Fcsi.sock"])(
    "may be %p from a client that spells out the name of the header",
    async sent => {
      const { path } = await serve();
      const { socket, types } = await raw(path);
      const request = makeFrame(frameType.headers, flag.endHeaders, 1, block(sent, spelledAuthority(sent)));
      socket.write(Buffer.concat([preface, settings, acknowledge, request, body]));
      await until(() => answered(types()) || types().includes("3/0"), "an answer or a reset");
      expect(answered(types())).toBe(true);
      socket.destroy();
    },
  );

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

describe("a HEADERS frame", () => {
  test("with an odd authority gets a harmless one, the rest is untouched", () => {
    expect(replaceAuthority(frameOf(headers("/csi/csi.sock")))).toEqual(headers("c"));
  });

  test("with padding and priority is understood", () => {
    const before = Buffer.from([3, 0, 0, 0, 0, 16]);
    const make = (authority: string) => headers(authority, flag.padded | flag.priority, before, Buffer.from([1, 1, 1]));
    expect(replaceAuthority(frameOf(make("/csi/csi.sock")))).toEqual(make("c"));
  });

  test("with the name of the header spelled out, plain or in the Huffman code, is understood", () => {
    for (const name of ["400a3a617574686f72697479", "4088b83b5339ec327d7f"]) {
      const make = (value: string) =>
        makeFrame(1, flag.endHeaders, 1, Buffer.concat([Buffer.from(name, "hex"), Buffer.from(value)]));
      expect(hasOddAuthority(frameOf(make("\x04/a/b")))).toBe(true);
      expect(hasOddAuthority(frameOf(make("\x09localhost")))).toBe(false);
      expect(replaceAuthority(frameOf(make("\x04/a/b")))).toEqual(make("\x01c"));
    }
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
