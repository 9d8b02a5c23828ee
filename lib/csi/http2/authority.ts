// lib/csi/http2: HTTP/2 below gRPC. http2-listener.ts accepts connections, authority.ts replaces the ":authority"
// headers of old clients that Bun's server refuses, with the frames of http2-frames.ts.

import { type Frame, flag, makeFrame, payloadOf, streamOf } from "./http2-frames.ts";

interface Span {
  readonly start: number;
  readonly end: number;
}

/** Decodes an integer with a prefix of `bits` bits (RFC 7541, section 5.1); `end` is the offset after it. */
function integer(block: Buffer, at: number, bits: number): { readonly value: number; readonly end: number } {
  const most = 2 ** bits - 1;
  let value = (block[at] ?? 0) & most;
  let end = at + 1;
  if (value < most) return { value, end };
  for (let weight = 1; ; weight *= 128) {
    const byte = block[end++] ?? 0;
    value += (byte & 127) * weight;
    if (byte < 128) return { value, end };
  }
}

/** The offset after the string that starts at `at` (RFC 7541, section 5.2). */
function stringEnd(block: Buffer, at: number): number {
  const length = integer(block, at, 7);
  return length.end + length.value;
}

/** The prefix size of a field's index, and whether a literal value follows (RFC 7541, section 6). */
function representation(first: number): { readonly bits: number; readonly literal: boolean } {
  if (first >= 0x80) return { bits: 7, literal: false };
  if (first >= 0x40) return { bits: 6, literal: true };
  if (first >= 0x20) return { bits: 5, literal: false };
  return { bits: 4, literal: true };
}

/** The index of `:authority` in the static table (RFC 7541, appendix A). */
const authorityIndex = 1;

/** `:authority` with its length as clients on the C core of gRPC encode it literally: plain, and Huffman-coded. */
const spelledNames: ReadonlySet<string> = new Set(["0a3a617574686f72697479", "88b83b5339ec327d7f"]);

/** The position of a literal `:authority` value in a header block, length prefix included. */
function findAuthority(block: Buffer): Span | undefined {
  for (let at = 0; at < block.length; ) {
    const { bits, literal } = representation(block[at] ?? 0);
    const index = integer(block, at, bits);
    at = index.end;
    if (!literal) continue;
    const nameStart = at;
    if (index.value === 0) at = stringEnd(block, at);
    const end = stringEnd(block, at);
    const spelled = index.value === 0 && spelledNames.has(block.toString("hex", nameStart, at));
    if (spelled || index.value === authorityIndex) return end <= block.length ? { start: at, end } : undefined;
    at = end;
  }
  return undefined;
}

/** The position of the header block in the payload of a HEADERS frame (RFC 9113, section 6.2). */
function blockSpan(frame: Frame, payload: Buffer): Span {
  const padded = (frame.flags & flag.padded) !== 0;
  const start = (padded ? 1 : 0) + ((frame.flags & flag.priority) !== 0 ? 5 : 0);
  return { start, end: payload.length - (padded ? (payload[0] ?? 0) : 0) };
}

/** The position of the `:authority` value in the payload; undefined if this frame has no literal one. */
function authoritySpan(frame: Frame, payload: Buffer): Span | undefined {
  const block = blockSpan(frame, payload);
  const found = findAuthority(payload.subarray(block.start, block.end));
  return found && { start: block.start + found.start, end: block.start + found.end };
}

/** "localhost" and the empty string as encoded in a header block: plain, and Huffman-coded (RFC 7541). */
const harmless: ReadonlySet<string> = new Set(["00", "80", "096c6f63616c686f7374", "86a0e41d139d09"]);

/** Whether the `:authority` of a HEADERS frame may be one that the runtime's HTTP/2 server refuses. */
export function hasOddAuthority(frame: Frame): boolean {
  const payload = payloadOf(frame);
  const span = authoritySpan(frame, payload);
  return span !== undefined && !harmless.has(payload.subarray(span.start, span.end).toString("hex"));
}

/**
 * The host name that replaces a refused one. A single letter, because an entry of the header table must not become
 * larger than the client assumes: the server would then evict entries that the client still refers to.
 */
const replacement = Buffer.from([1, "c".charCodeAt(0)]);

/** The HEADERS frame with a harmless `:authority`; unchanged if the frame has no literal one. */
export function replaceAuthority(frame: Frame): Buffer {
  const payload = payloadOf(frame);
  const span = authoritySpan(frame, payload);
  if (!span || span.end - span.start < replacement.length) return frame.bytes;
  const changed = Buffer.concat([payload.subarray(0, span.start), replacement, payload.subarray(span.end)]);
  return makeFrame(frame.type, frame.flags, streamOf(frame), changed);
}
