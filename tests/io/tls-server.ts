import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type WebSocket, WebSocketServer } from "ws";
import type { HttpSettings } from "../../lib/io/dial.ts";
import { makeAuthority, makeServer } from "./certificates.ts";

/** An https server with a certificate of its own authority; WebSockets are opened at /socket. */
export interface TlsServer {
  readonly settings: HttpSettings;
  /** PEM of the authority, and of another one. */
  readonly ca: string;
  readonly otherCa: string;
  /** How many requests it has seen. */
  seen(): number;
  close(): void;
}

export interface Handlers {
  answer?(request: IncomingMessage, response: ServerResponse): void;
  socket?(socket: WebSocket): void;
}

/** The answer that opens a WebSocket (RFC 6455, 4.2.2). */
const acceptance = (key: string): string =>
  [
    "HTTP/1.1 101 Switching Protocols",
    "Upgrade: websocket",
    "Connection: Upgrade",
    `Sec-WebSocket-Accept: ${createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64")}`,
    "\r\n",
  ].join("\r\n");

/** Starts one on a free port of loopback. At /mute a WebSocket is opened and nothing is ever answered on it. */
export async function tlsServer(handlers: Handlers): Promise<TlsServer> {
  const folder = mkdtempSync(join(tmpdir(), "csimux-tls-"));
  makeAuthority(folder, "ca");
  makeAuthority(folder, "other");
  const { cert, key } = makeServer(folder, "ca");
  const text = (file: string) => readFileSync(file, "utf8");
  let seen = 0;
  const server = createServer({ cert: text(cert), key: text(key) }, (request, response) => {
    seen++;
    handlers.answer?.(request, response);
  });
  const sockets = new WebSocketServer({ noServer: true });
  server.on("upgrade", (request, socket, head) => {
    seen++;
    if (request.url === "/mute") return void socket.write(acceptance(request.headers["sec-websocket-key"] ?? ""));
    if (request.url !== "/socket") return void socket.end("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    sockets.handleUpgrade(request, socket, head, each => handlers.socket?.(each));
  });
  await new Promise<void>(resolve => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const ca = text(join(folder, "ca.crt"));
  return {
    settings: { protocol: "https", host: "127.0.0.1", port, ca, fingerprint: undefined, allowInsecure: false },
    ca,
    otherCa: text(join(folder, "other.crt")),
    seen: () => seen,
    close() {
      for (const each of sockets.clients) each.terminate();
      server.closeAllConnections();
      server.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
