import { connect, type Socket } from "node:net";
import type { Log } from "../core/call.ts";
import { CsiError, detailOf, errnoOf } from "../core/errors.ts";
import { jsonWithoutSecrets } from "../core/secrets.ts";
import { unreached } from "../csi/socket-file.ts";
import { type OwnSocket, serveOwnSocket } from "./own-socket.ts";
import type { StatusAnswer } from "./status.ts";

/** The longest status accepted, in bytes. */
const maxBytes = 64 << 20;

/** The time limit for a client to read the status, in milliseconds. */
const readMs = 10_000;

/** The status socket of a process with the CSI socket `path`. */
export const statusSocketOf = (path: string): string => `${path}.status`;

/** How long a client may take to send its request, in milliseconds; one that sends none gets the status. */
const requestMs = 1_000;

/** The time limit for listing the volumes of all storage systems, in milliseconds; each listing has its own, shorter one. */
const volumesMs = 60_000;

/** The requests of clients: the status, or the status with the volumes, for which the storage systems are asked. */
export type StatusRequest = "status" | "volumes";

/**
 * Sends the status to every client as one JSON text and closes the connection. Reads at most the first bytes of a
 * client, and no client and no error in the status can end the process: if generating the status fails, it is logged,
 * and the client receives no text. Throws "failed-precondition" if the socket cannot be created.
 */
export function serveStatus(
  path: string,
  status: (request: StatusRequest) => StatusAnswer | Promise<StatusAnswer>,
  log: Log,
): Promise<OwnSocket> {
  return serveOwnSocket(
    path,
    "status socket",
    peer => {
      peer.on("timeout", () => peer.destroy());
      void requested(peer)
        .then(async request => {
          peer.setTimeout(request === "volumes" ? volumesMs : readMs);
          const answer = await status(request);
          peer.setTimeout(readMs);
          peer.end(`${jsonWithoutSecrets(answer)}\n`);
        })
        .catch((error: unknown) => {
          log.error("cannot generate the status", { reason: detailOf(error) });
          peer.destroy();
        });
    },
    log,
  );
}

/** The request of a client: its first bytes. */
const requested = (peer: Socket): Promise<StatusRequest> =>
  new Promise(resolve => {
    const timer = setTimeout(() => resolve("status"), requestMs);
    const settle = (bytes?: Buffer | string) => {
      clearTimeout(timer);
      resolve(bytes?.toString().startsWith("volumes\n") ? "volumes" : "status");
    };
    peer.once("data", settle);
    peer.once("end", () => settle());
    peer.once("close", () => settle());
  });

/**
 * Reads the status from the process that listens at `path`. Throws "unavailable" with the reason if there is none
 * within `timeoutMs`.
 */
export async function askStatus(
  path: string,
  timeoutMs: number,
  request: StatusRequest = "status",
): Promise<StatusAnswer> {
  const text = await received(path, timeoutMs, request);
  try {
    return JSON.parse(text) as StatusAnswer;
  } catch (cause) {
    const why = text === "" ? "returned no status; see the log of csimux" : "is not the status socket of csimux";
    throw new CsiError("unavailable", `${path} ${why}`, { cause });
  }
}

const absent = "is csimux running, and is this its --endpoint or --status-socket?";

function received(path: string, timeoutMs: number, request: StatusRequest): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const peer = connect({ path });
    peer.write(`${request}\n`);
    const fail = (why: string, cause?: unknown) => {
      clearTimeout(timer);
      peer.destroy();
      reject(new CsiError("unavailable", `${path} ${why}`, { cause }));
    };
    const timer = setTimeout(() => fail(`did not answer within ${timeoutMs / 1000} s`), timeoutMs);
    peer.on("data", chunk => {
      chunks.push(Buffer.from(chunk));
      bytes += chunk.length;
      if (bytes > maxBytes) fail("sent more data than a status can have");
    });
    peer.on("error", error => fail(unreached(errnoOf(error), absent), error));
    peer.on("end", () => {
      clearTimeout(timer);
      peer.destroy();
      resolve(Buffer.concat(chunks).toString("utf8"));
    });
  });
}
