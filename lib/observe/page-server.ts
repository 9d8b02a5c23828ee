import { STATUS_CODES } from "node:http";
import { createServer } from "node:net";
import { setImmediate } from "node:timers/promises";
import type { Log } from "../core/call.ts";
import { CsiError, detailOf, errnoOf } from "../core/errors.ts";
import { Clients, connectionLimit } from "./page-clients.ts";
import { type ClientRequest, receive } from "./page-request.ts";

const plain = "text/plain; charset=utf-8";

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
 * Each connection gets one answer: node:http of the engine starts every request that a connection has sent, without a limit.
 */
export async function servePages(
  what: string,
  { host, port }: { readonly host: string; readonly port: number },
  pages: Pages,
  log: Log,
): Promise<{ readonly port: number; readonly close: () => void }> {
  const clients = new Clients(await connectionLimit());
  const server = createServer({ allowHalfOpen: true }, socket => {
    clients.add(socket);
    receive(
      socket,
      bytes => clients.hold(socket, bytes),
      async request => {
        clients.asked(socket);
        clients.answer(socket, request ? await answerTo(request, pages, log) : responseOf(misread));
      },
      () => clients.close(socket),
    );
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

const misread: HttpPage = { status: 400, text: "this is not a request of HTTP/1.1\n" };

/** Never rejects, because no caller awaits it. */
async function answerTo(request: ClientRequest, pages: Pages, log: Log): Promise<Buffer> {
  const { method, path } = request;
  const page = Object.hasOwn(pages, path) ? pages[path] : undefined;
  if ((method !== "GET" && method !== "HEAD") || !page)
    return responseOf({ status: 404, text: `csimux serves GET ${Object.keys(pages).join(" and ")} here\n` });
  try {
    const response = responseOf(await page(request));
    // RFC 9110: the same header, and no content.
    return method === "HEAD" ? response.subarray(0, response.indexOf("\r\n\r\n") + 4) : response;
  } catch (error) {
    log.error("cannot generate a page", { page: path, reason: detailOf(error) });
    return responseOf({ status: 500, text: "cannot generate the page; see the log of csimux\n" });
  }
}

/** Pages that several clients get are written once. */
const written = new WeakMap<HttpPage, Buffer>();

/** An answer of HTTP/1.1 (RFC 9112). */
function responseOf(page: HttpPage): Buffer {
  const known = written.get(page);
  if (known) return known;
  const { status, contentType = plain, headers, text } = page;
  const all = {
    "Content-Type": contentType,
    ...headers,
    Date: new Date().toUTCString(),
    "Content-Length": Buffer.byteLength(text),
    Connection: "close",
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const bytes = Buffer.from(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}\r\n${lines.join("")}\r\n${text}`);
  written.set(page, bytes);
  return bytes;
}
