import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer } from "node:net";
import { setImmediate } from "node:timers/promises";
import type { Log } from "../core/call.ts";
import { CsiError, detailOf, errnoOf } from "../core/errors.ts";
import { Clients, connectionLimit } from "./page-clients.ts";

const plain = "text/plain; charset=utf-8";

/** What pages need of a request. */
export interface ClientRequest {
  readonly headers: { readonly host?: string | undefined; readonly authorization?: string | undefined };
  /** The address of the client, or of the proxy before it. */
  readonly from: string;
}

/** The response to a GET. */
export interface HttpPage {
  readonly status: number;
  /** Plain text if absent. */
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly text: string;
}

/** Pages by path, generated for each request. */
export type Pages = Readonly<Record<string, (request: ClientRequest) => Promise<HttpPage>>>;

/**
 * Serves only these pages over HTTP; an empty `host` means all addresses of the machine (IPv4 and IPv6), with `port` 0
 * the system chooses one. If generating a page fails, it is logged and answered with 500. Throws "failed-precondition"
 * if the address cannot be used; `what` names the purpose in its message.
 *
 * node:http parses the requests of sockets that are accepted here: its own listener in Bun 1.4.5 neither counts nor ends
 * clients that send nothing. Each connection gets one answer: node:http starts every request of a connection, without a limit.
 */
export async function servePages(
  what: string,
  { host, port }: { readonly host: string; readonly port: number },
  pages: Pages,
  log: Log,
): Promise<{ readonly port: number; readonly close: () => void }> {
  const clients = new Clients(await connectionLimit());
  const parser = createHttpServer({ requireHostHeader: false, keepAlive: false }, (request, response) => {
    const { socket } = request;
    // Not `destroy`, which would take the answer to the first request with it.
    if (!clients.asked(socket)) return;
    response.on("error", () => clients.close(socket));
    void answerTo(request, pages, log).then(page => {
      clients.answered(socket, Buffer.byteLength(page.text));
      send(response, page);
    });
  });
  parser.on("clientError", (_error, socket) => {
    if (socket.writable) socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
  });
  const server = createServer({ allowHalfOpen: true }, socket => {
    clients.add(socket);
    parser.emit("connection", socket);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", cause => {
      const why = errnoOf(cause) ?? String(cause);
      reject(new CsiError("failed-precondition", `cannot serve ${what} on ${host}:${port}: ${why}`, { cause }));
    });
    if (host === "") server.listen(port, () => resolve());
    else server.listen(port, host.replace(/^\[|\]$/g, ""), () => resolve());
  });
  // A listener may report failed accepts, for example for lack of descriptors, as errors at any time.
  server.on("error", error => log.warn(`a connection for ${what} failed`, { reason: error.message }));
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : port,
    close: () => {
      server.close();
      clients.closeAll();
    },
  };
}

/**
 * Runs `make` once for all who ask in one turn of the event loop or while it runs: thousands of requests that come together cost as much as
 * one.
 */
export function shared<T>(make: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return () => {
    running ??= setImmediate()
      .then(make)
      .finally(() => {
        running = undefined;
      });
    return running;
  };
}

/** Never rejects, because no caller awaits it. */
async function answerTo(request: IncomingMessage, pages: Pages, log: Log): Promise<HttpPage> {
  const { method, url = "", rawHeaders, headers, socket } = request;
  // A header that occurs twice could be read differently by a proxy.
  const names = rawHeaders.filter((_, index) => index % 2 === 0).map(each => each.toLowerCase());
  if (["host", "authorization"].some(name => names.indexOf(name) !== names.lastIndexOf(name)))
    return { status: 400, text: "a header occurs twice\n" };
  const path = url.replace(/\?.*$/, "");
  const page = Object.hasOwn(pages, path) ? pages[path] : undefined;
  if ((method !== "GET" && method !== "HEAD") || !page)
    return { status: 404, text: `csimux serves GET ${Object.keys(pages).join(" and ")} here\n` };
  try {
    const { host, authorization } = headers;
    return await page({ headers: { host, authorization }, from: socket.remoteAddress ?? "" });
  } catch (error) {
    log.error("cannot generate a page", { page: path, reason: detailOf(error) });
    return { status: 500, text: "cannot generate the page; see the log of csimux\n" };
  }
}

function send(response: ServerResponse, { status, contentType = plain, headers, text }: HttpPage): void {
  const own = { "Content-Length": Buffer.byteLength(text), Connection: "close" };
  response.writeHead(status, { "Content-Type": contentType, ...headers, ...own });
  response.end(text);
}
