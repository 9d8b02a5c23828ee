import type { ServerResponse } from "node:http";
import type { WebSocket } from "ws";

/** What becomes of an answer between the server and the client: a proxy, a front end or the network may change it. */

/** An answer as the server sends it. */
export interface Sent {
  readonly text: string;
  /** Of HTTP; undefined over the WebSocket. */
  readonly status: number | undefined;
}

/** What the client gets in its place. */
export interface Delivery {
  /** The body over HTTP, of which there is one; the messages over the WebSocket. */
  readonly texts: readonly string[];
  readonly status?: number;
  /** The connection ends afterwards: over HTTP before as many bytes were sent as were announced. */
  readonly ends?: true;
}

/** How answers are delivered. */
export type Deliver = (sent: Sent) => Delivery;

/** What is answered to a request that never reaches the server; undefined: it does. */
export type Intercept = (method: string) => Delivery | undefined;

/** Answers over HTTP. */
export function sendResponse(response: ServerResponse, { texts, status = 200, ends }: Delivery): void {
  const body = texts[0] ?? "";
  if (ends && body === "") return void response.socket?.destroy();
  const type = body.startsWith("<") ? "text/html" : "application/json";
  const length = Buffer.byteLength(body) + (ends ? 1 : 0);
  response.writeHead(status, { "content-type": type, "content-length": length });
  if (ends) response.write(body, () => response.socket?.destroy());
  else response.end(body);
}

/** Sends messages over the WebSocket. */
export function sendMessage(socket: WebSocket, { texts, ends }: Delivery): void {
  if (socket.readyState !== socket.OPEN) return;
  for (const each of texts) socket.send(each);
  if (ends) socket.close(1001);
}
