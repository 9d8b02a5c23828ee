import { connect, createServer, type Socket } from "node:net";
import type { Log } from "../core/call.ts";
import { errnoOf } from "../core/errno.ts";
import { CsiError, detailOf } from "../core/errors.ts";
import { withoutKnownSecrets } from "../core/known-secrets.ts";
import { placeSocket } from "../csi/socket-file.ts";
import type { StatusAnswer } from "./status.ts";

/** Only the user that csimux runs as may connect. */
const mode = 0o600;

/** The longest status that is read, in bytes. */
const maxBytes = 64 << 20;

/** How long one who asks may take to read the answer, in milliseconds. */
const readMs = 10_000;

/** Where a process whose CSI socket is at `path` tells its status. */
export const statusSocketOf = (path: string): string => `${path}.status`;

/**
 * Tells the status to everyone who connects, as one JSON text, and hangs up. Nothing is read from the peer, and nothing that a peer
 * does or that is wrong with the status ends the process: a status that cannot be made is a line of `log`, and the peer gets no text.
 * Throws "failed-precondition" when the socket cannot be placed.
 */
export async function serveStatus(
  path: string,
  status: () => StatusAnswer,
  log: Log,
): Promise<{ readonly close: () => void }> {
  const peers = new Set<Socket>();
  const server = createServer(peer => {
    peers.add(peer);
    peer.on("close", () => peers.delete(peer));
    peer.on("error", () => peer.destroy());
    peer.setTimeout(readMs, () => peer.destroy());
    try {
      peer.end(`${withoutKnownSecrets(JSON.stringify(status()))}\n`);
    } catch (error) {
      log.error("the status could not be made", { reason: detailOf(error) });
      peer.destroy();
    }
  });
  // A listener reports failed accepts, such as for want of descriptors, as errors at any time.
  server.on("error", error => log.warn("a connection to the status socket failed", { reason: error.message }));
  const file = await placeSocket(
    path,
    mode,
    own =>
      new Promise((resolve, reject) => {
        server.once("error", reject);
        server.listen(own, resolve);
      }),
  );
  return {
    close: () => {
      file.release();
      server.close();
      for (const peer of peers) peer.destroy();
    },
  };
}

/** Asks the process that listens at `path`. Throws "unavailable" that says why there is no answer within `timeoutMs`. */
export async function askStatus(path: string, timeoutMs: number): Promise<StatusAnswer> {
  const text = await received(path, timeoutMs);
  try {
    return JSON.parse(text) as StatusAnswer;
  } catch (cause) {
    const why = text === "" ? "gave no status; the log of csimux says why" : "is not the status socket of csimux";
    throw new CsiError("unavailable", `${path} ${why}`, { cause });
  }
}

function received(path: string, timeoutMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const peer = connect({ path });
    const fail = (why: string, cause?: unknown) => {
      clearTimeout(timer);
      peer.destroy();
      reject(new CsiError("unavailable", `${path} ${why}`, { cause }));
    };
    const timer = setTimeout(() => fail(`gives no answer within ${timeoutMs / 1000} s`), timeoutMs);
    peer.on("data", chunk => {
      chunks.push(Buffer.from(chunk));
      bytes += chunk.length;
      if (bytes > maxBytes) fail("tells more than a status can be");
    });
    peer.on("error", error => fail(reasons[errnoOf(error) ?? ""] ?? `cannot be reached (${errnoOf(error)})`, error));
    peer.on("end", () => {
      clearTimeout(timer);
      peer.destroy();
      resolve(Buffer.concat(chunks).toString("utf8"));
    });
  });
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "is not there; does csimux run, and is this its --endpoint or --status-socket?",
  ECONNREFUSED: "is there, but nobody listens; has csimux ended?",
  EACCES: "may not be used by this user; status is for the user that csimux runs as",
};
