/** The connection preface of an HTTP/2 client (RFC 9113, section 3.4). */
export const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** Frame types (RFC 9113, section 6). */
export const frameType = { headers: 1, settings: 4, ping: 6 } as const;

/** Frame flags; 0x1 is ACK in SETTINGS and PING. */
export const flag = { ack: 0x1, endHeaders: 0x4, padded: 0x8, priority: 0x20 } as const;

/** The longest payload in bytes that a peer may send by default (RFC 9113, section 4.2). */
export const maxPayloadBytes = 16_384;

const headBytes = 9;

/** One frame with its nine-byte head. */
export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly bytes: Buffer;
}

/** The length in bytes of the first frame of a buffer, head included; undefined while the head is incomplete. */
export const frameLength = (bytes: Buffer): number | undefined =>
  bytes.length < headBytes ? undefined : headBytes + bytes.readUIntBE(0, 3);

/** The first frame of a buffer; undefined while it is incomplete. */
export function firstFrame(bytes: Buffer): Frame | undefined {
  const length = frameLength(bytes);
  if (length === undefined || bytes.length < length) return undefined;
  return { type: bytes.readUInt8(3), flags: bytes.readUInt8(4), bytes: bytes.subarray(0, length) };
}

/** Makes a frame; stream 0 is the connection itself. */
export function makeFrame(type: number, flags: number, stream: number, payload: Uint8Array): Buffer {
  const head = Buffer.alloc(headBytes);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** The payload of a frame. */
export const payloadOf = (frame: Frame): Buffer => frame.bytes.subarray(headBytes);

/** The number of the stream that a frame belongs to. */
export const streamOf = (frame: Frame): number => frame.bytes.readUInt32BE(5) & 0x7fffffff;
