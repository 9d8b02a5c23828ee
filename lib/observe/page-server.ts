import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Log } from "../core/call.ts";
import { CsiError, detailOf, errnoOf } from "../core/errors.ts";

/** The time limit for a client to send its request, in milliseconds. */
const requestMs = 10_000;

/** The most connections at once; further ones are closed. */
const mostConnections = 64;

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
export type Pages = Readonly<Record<string, (request: IncomingMessage) => Promise<HttpPage>>>;

/**
 * Serves only these pages over HTTP; an empty `host` means all addresses of the machine (IPv4 and IPv6), with `port` 0
 * the system chooses one. If generating a page fails, it is logged and answered with 500. Throws "failed-precondition"
 * if the address cannot be used; `what` names the purpose in its message.
 */
export async function servePages(
  what: string,
  { host, port }: { readonly host: string; readonly port: number },
  pages: Pages,
  log: Log,
): Promise<{ readonly port: number; readonly close: () => void }> {
  const server = createServer((request, response) => void answer(pages, request, response, log));
  server.requestTimeout = requestMs;
  server.headersTimeout = requestMs;
  server.maxConnections = mostConnections;
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
      server.closeAllConnections();
    },
  };
}

/** Never rejects, because no caller awaits it. */
async function answer(pages: Pages, request: IncomingMessage, response: ServerResponse, log: Log): Promise<void> {
  response.on("error", () => response.destroy());
  try {
    const { status, contentType = plain, headers, text } = await pageFor(pages, request, log);
    response.writeHead(status, { "Content-Type": contentType, ...headers }).end(text);
  } catch (error) {
    log.error("cannot send a page", { reason: detailOf(error) });
    response.destroy();
  }
}

async function pageFor(pages: Pages, request: IncomingMessage, log: Log): Promise<HttpPage> {
  const { method, url = "" } = request;
  const [path = ""] = url.split("?");
  const page = Object.hasOwn(pages, path) ? pages[path] : undefined;
  if (method !== "GET" || !page)
    return { status: 404, text: `csimux serves GET ${Object.keys(pages).join(" and ")} here\n` };
  try {
    return await page(request);
  } catch (error) {
    log.error("cannot generate a page", { page: path, reason: detailOf(error) });
    return { status: 500, text: "cannot generate the page; see the log of csimux\n" };
  }
}
