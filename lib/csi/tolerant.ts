import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { replaceAuthority } from "./http2/authority.ts";
import { firstFrame, frameLength, frameType } from "./http2/http2-frames.ts";

const isHeaders = (bytes: Buffer): boolean => bytes.readUInt8(3) === frameType.headers;

/**
 * Returns a function that takes the frames of a client as they arrive, in pieces of any size, and returns what to pass
 * on: HEADERS frames whole and with a harmless `:authority`, everything else unchanged and without delay.
 */
export function authorityFilter(): (chunk: Buffer) => Buffer[] {
  let held: Buffer = Buffer.alloc(0);
  let passing = 0;
  return chunk => {
    const out: Buffer[] = [];
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    while (held.length > 0) {
      if (passing === 0) {
        const length = frameLength(held);
        if (length === undefined) break;
        if (isHeaders(held)) {
          const frame = firstFrame(held);
          if (!frame) break;
          out.push(replaceAuthority(frame));
          held = held.subarray(length);
          continue;
        }
        passing = length;
      }
      const piece = held.subarray(0, passing);
      out.push(piece);
      passing -= piece.length;
      held = held.subarray(piece.length);
    }
    return out;
  };
}

/**
 * The socket as a stream that gives the server harmless `:authority` headers; `opening` holds the bytes already read.
 */
export function tolerant(socket: Socket, preface: Buffer, opening: Buffer): Duplex {
  const filter = authorityFilter();
  const connection = new Duplex({
    read: () => void socket.resume(),
    write: (chunk: Buffer, _encoding, done) => void socket.write(chunk, done),
    final: done => void socket.end(done),
    destroy: (error, done) => {
      socket.destroy();
      done(error);
    },
  });
  const feed = (chunk: Buffer) => {
    for (const piece of filter(chunk)) if (!connection.push(piece)) socket.pause();
  };
  connection.push(preface);
  feed(opening);
  socket.on("data", feed);
  socket.on("end", () => connection.push(null));
  socket.on("close", () => connection.destroy());
  return connection;
}
