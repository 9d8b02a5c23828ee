import { createServer, type Server, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { tolerant } from "../tolerant.ts";
import { hasOddAuthority } from "./authority.ts";
import {
  type Frame,
  firstFrame,
  flag,
  frameLength,
  frameType,
  makeFrame,
  maxPayloadBytes,
  payloadOf,
  preface,
} from "./http2-frames.ts";

const emptySettings = makeFrame(frameType.settings, 0, 0, new Uint8Array());

const isAck = (frame: Frame, type: number): boolean => frame.type === type && (frame.flags & flag.ack) !== 0;

/** More than any client sends before its first request; beyond it, the bytes go to the server unchecked. */
const maxOpeningBytes = 262_144;

/** The start of a connection, up to its first request and the acknowledgement of our SETTINGS. */
class ConnectionOpening {
  readonly #kept: Buffer[] = [];
  #rest = Buffer.alloc(0);
  #acknowledged = false;
  #request: Frame | undefined;
  #malformed = false;
  #bytes = 0;

  /** Takes bytes that follow the preface; returns the frames to send back immediately. */
  add(chunk: Buffer): Buffer[] {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    this.#bytes += chunk.length;
    const answers: Buffer[] = [];
    while (!this.complete) {
      this.#malformed = (frameLength(this.#rest) ?? 0) > maxPayloadBytes + 9;
      const frame = firstFrame(this.#rest);
      if (!frame) break;
      this.#rest = this.#rest.subarray(frame.bytes.length);
      if (frame.type === frameType.ping && !isAck(frame, frameType.ping)) {
        answers.push(makeFrame(frameType.ping, flag.ack, 0, payloadOf(frame)));
      } else if (!this.#acknowledged && isAck(frame, frameType.settings)) {
        // Acknowledges the SETTINGS sent from here, which the server does not know about.
        this.#acknowledged = true;
      } else {
        this.#kept.push(frame.bytes);
        if (frame.type === frameType.headers) this.#request ??= frame;
      }
    }
    return answers;
  }

  get complete(): boolean {
    return this.#malformed || this.#bytes > maxOpeningBytes || (this.#acknowledged && this.#request !== undefined);
  }

  get odd(): boolean {
    return this.#request !== undefined && hasOddAuthority(this.#request);
  }

  /** All bytes that must reach the server. */
  get bytes(): Buffer {
    return Buffer.concat([...this.#kept, this.#rest]);
  }
}

/**
 * Passes the socket to the server together with the bytes already read. Bun's server reads the rest as events and needs
 * a flowing socket; Node's takes the buffered bytes and then the descriptor, and loses bytes if the socket flows.
 */
function handOver(socket: Socket, read: Buffer, accept: (connection: Duplex) => void): void {
  socket.pause();
  socket.unshift(read);
  accept(socket);
  if (socket.listenerCount("data") > 0) socket.resume();
}

/**
 * Inspects the first request of an HTTP/2 client before the server does, then calls `accept` with the connection.
 *
 * Clients on Unix sockets send different values of `:authority`: kubelet up to 1.28 sends the path of the socket,
 * others the percent-encoded path. The HTTP/2 server of the runtime resets requests with a path, as RFC 9113 section
 * 8.3.1 allows. A client that sends "localhost" is connected to the server directly, at no further cost; any other
 * passes through a filter.
 *
 * Some clients hold back their first request until they have received SETTINGS, so an empty SETTINGS frame is sent from
 * here. The server sends its own later, which HTTP/2 allows at any time, and never sees the acknowledgement of ours.
 */
export function admit(socket: Socket, accept: (connection: Duplex) => void): void {
  const opening = new ConnectionOpening();
  let greeting = Buffer.alloc(0);
  let greeted = false;

  const leave = (hand: () => void) => {
    socket.off("data", onData);
    hand();
  };
  const onData = (chunk: Buffer) => {
    let frames = chunk;
    if (!greeted) {
      greeting = Buffer.concat([greeting, chunk]);
      const received = greeting.subarray(0, preface.length);
      if (!preface.subarray(0, received.length).equals(received))
        return leave(() => handOver(socket, greeting, accept));
      if (received.length < preface.length) return;
      greeted = true;
      socket.write(emptySettings);
      frames = greeting.subarray(preface.length);
    }
    for (const answer of opening.add(frames)) socket.write(answer);
    if (!opening.complete) return;
    leave(() =>
      opening.odd
        ? accept(tolerant(socket, preface, opening.bytes))
        : handOver(socket, Buffer.concat([preface, opening.bytes]), accept),
    );
  };
  socket.on("data", onData);
}

/** How many clients may be silent from the start for as long as they like; others have this time, in milliseconds. */
const mostSilent = 32;
const usualMs = 10_000;

/** A listener on a Unix socket that admits connections one by one. */
export class Http2Listener {
  readonly #listener: Server;
  readonly #waiting = new Set<Socket>();

  constructor(accept: (connection: Duplex) => void, silentMs = usualMs) {
    this.#listener = createServer(socket => {
      this.#waiting.add(socket);
      socket.setTimeout(silentMs, () => {
        if (this.#waiting.size > mostSilent && this.#waiting.delete(socket)) socket.destroy();
      });
      socket.on("error", () => socket.destroy());
      socket.on("close", () => this.#waiting.delete(socket));
      admit(socket, connection => {
        this.#waiting.delete(socket);
        accept(connection);
      });
    });
  }

  /** Listens on the path; rejects with the system's error. */
  listen(path: string): Promise<void> {
    return new Promise((resolve, reject) => {
      // Node may later report a failed accept as an error; it concerns only that client.
      this.#listener.on("error", reject);
      this.#listener.listen({ path }, resolve);
    });
  }

  /** Accepts no more connections and drops those without a request; resolves when all others have closed. */
  close(): Promise<void> {
    const closed = new Promise<void>(resolve => this.#listener.close(() => resolve()));
    for (const socket of this.#waiting) socket.destroy();
    return closed;
  }
}
