import { createServer, type Socket } from "node:net";
import type { Log } from "../core/call.ts";
import { putSocketFile } from "../csi/socket-file.ts";

/** Only the user that runs csimux may connect. */
const mode = 0o600;

/** A socket that is served. */
export interface OwnSocket {
  /** Ends all connections, and removes the file. */
  readonly close: () => void;
}

/**
 * Serves a Unix socket that only the user that runs csimux may connect to; no client can end the process. `name` is for the log, and
 * `serve` gets each client. Throws "failed-precondition" if the socket cannot be created.
 */
export async function serveOwnSocket(
  path: string,
  name: string,
  serve: (peer: Socket) => void,
  log: Log,
): Promise<OwnSocket> {
  const peers = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, peer => {
    peers.add(peer);
    peer.on("close", () => peers.delete(peer));
    peer.on("error", () => peer.destroy());
    serve(peer);
  });
  // A listener may report failed accepts, for example for lack of descriptors, as errors at any time.
  server.on("error", error => log.warn(`a connection to the ${name} failed`, { reason: error.message }));
  const file = await putSocketFile(
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
