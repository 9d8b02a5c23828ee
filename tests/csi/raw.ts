import { connect } from "node:net";
import { firstFrame, flag, frameType, makeFrame } from "../../lib/csi/http2/http2-frames.ts";

/** A literal header field with a name of the static table (RFC 7541, section 6.2.1), value not Huffman-coded. */
const literal = (index: number, value: string): Buffer =>
  Buffer.concat([Buffer.from([0x40 | index, value.length]), Buffer.from(value)]);

/** A literal header field with its name spelled out. */
export const named = (name: string, value: string): Buffer =>
  Buffer.concat([Buffer.from([0x40, name.length]), Buffer.from(name), Buffer.from([value.length]), Buffer.from(value)]);

/** `:authority` as clients on the C core of gRPC send it: the name spelled out although the static table has it. */
export const spelledAuthority = (value: string): Buffer => named(":authority", value);

/** The header block of a Probe request; 0x83 and 0x86 are ":method: POST" and ":scheme: http". */
export const block = (authority: string, field = literal(1, authority)): Buffer =>
  Buffer.concat([
    Buffer.from([0x83, 0x86]),
    literal(4, "/csi.v1.Identity/Probe"),
    field,
    named("content-type", "application/grpc"),
    named("te", "trailers"),
  ]);

/** The HEADERS frame of a Probe request on stream 1; `before` and `after` surround the block (priority, padding). */
export const headers = (authority: string, flags = 0, before = Buffer.alloc(0), after = Buffer.alloc(0)): Buffer =>
  makeFrame(frameType.headers, flag.endHeaders | flags, 1, Buffer.concat([before, block(authority), after]));

/** The first frame of the bytes, which must be whole. */
export function frameOf(bytes: Buffer) {
  const frame = firstFrame(bytes);
  if (!frame) throw new Error("no whole frame");
  return frame;
}

/** The frames of a simple client: its SETTINGS, its answer to those of the server, an empty message, a PING. */
export const settings = makeFrame(frameType.settings, 0, 0, Buffer.alloc(0));
export const acknowledge = makeFrame(frameType.settings, flag.ack, 0, Buffer.alloc(0));
export const body = makeFrame(0, 1, 1, Buffer.alloc(5));
export const ping = makeFrame(frameType.ping, 0, 0, Buffer.from("12345678"));

/** A raw connection; `types` lists what the server has sent so far as type/flags. */
export async function raw(path: string) {
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

/** Whether the frames end a call: HEADERS with END_STREAM. */
export const answered = (types: string[]): boolean => types.includes("1/5");

/** What kubelet up to 1.28 sends: the path of the socket. */
export const kubelet = "/var/lib/kubelet/plugins/org.example.csi/csi.sock";
