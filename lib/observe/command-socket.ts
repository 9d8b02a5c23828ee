import type { Socket } from "node:net";
import {
  type CopyAnswer,
  type CopyCommand,
  commandSocketOf,
  maxRequestBytes,
  readCommand,
  writeLine,
} from "../copies/protocol.ts";
import type { Log } from "../core/call.ts";
import { CsiError, detailOf } from "../core/errors.ts";
import { type OwnSocket, serveOwnSocket } from "./own-socket.ts";

export { commandSocketOf };

/** Runs a command; `tell` sends a line to the client. The signal aborts when the client leaves. */
export type RunCommand = (
  command: CopyCommand,
  tell: (answer: CopyAnswer) => void,
  signal: AbortSignal,
) => Promise<void>;

/**
 * Serves the command socket. A client has `clientMs` milliseconds to send its request, and again to leave after the last answer. Throws
 * "failed-precondition" if the socket cannot be created.
 */
export function serveCommands(path: string, run: RunCommand, log: Log, clientMs = 10_000): Promise<OwnSocket> {
  return serveOwnSocket(
    path,
    "command socket",
    peer => {
      const left = new AbortController();
      peer.on("close", () => left.abort(new CsiError("aborted", "the client of the command socket has left")));
      const tell = (answer: CopyAnswer): void => void peer.write(`${writeLine(answer)}\n`);
      void requested(peer, clientMs)
        .then(line => run(readCommand(line), tell, left.signal))
        .catch((error: unknown) => {
          if (!(error instanceof CsiError)) log.error("a command failed", { reason: detailOf(error) });
          const { code, message } = error instanceof CsiError ? error : unexpected;
          tell({ kind: "failed", code, message });
        })
        .finally(() => {
          peer.end();
          // The client may leave its side open permanently, and each keeps a descriptor.
          const timer = setTimeout(() => peer.destroy(), clientMs);
          peer.once("close", () => clearTimeout(timer));
        });
    },
    log,
  );
}

const unexpected = { code: "internal", message: "the command failed unexpectedly; see the log of csimux" } as const;

/** The first line of a client within `ms`. Throws "invalid-argument" for none, or one that is too long. */
const requested = (peer: Socket, ms: number): Promise<string> =>
  new Promise((resolve, reject) => {
    let text = "";
    const done = () => {
      clearTimeout(timer);
      peer.off("data", read);
      peer.resume();
    };
    const refuse = (why: string) => {
      done();
      reject(new CsiError("invalid-argument", `the command socket got ${why}`));
    };
    const timer = setTimeout(() => refuse("no request in time"), ms);
    const read = (chunk: Buffer | string): void => {
      text += chunk.toString();
      const end = text.indexOf("\n");
      if (Buffer.byteLength(text) > maxRequestBytes) refuse("too long a request");
      else if (end >= 0) {
        done();
        resolve(text.slice(0, end));
      }
    };
    peer.on("data", read);
    peer.once("end", () => refuse("no whole line"));
    peer.once("close", () => refuse("no whole line"));
  });
