import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { errnoOf } from "../core/errno.ts";
import { CsiError } from "../core/errors.ts";

/** How long one who scrapes may take to send the request, in milliseconds. */
const requestMs = 10_000;

/** The page that is served at /metrics. */
export interface MetricsPage {
  readonly contentType: string;
  text(): Promise<string>;
}

/**
 * Serves the page over HTTP and nothing else; `port` 0 lets the system choose. Throws "failed-precondition" when the address
 * cannot be used.
 */
export async function serveMetrics(
  { host, port }: { readonly host: string; readonly port: number },
  page: MetricsPage,
): Promise<{ readonly port: number; readonly close: () => void }> {
  const server = createServer((request, response) => void answer(page, request, response));
  server.requestTimeout = requestMs;
  server.headersTimeout = requestMs;
  await new Promise<void>((resolve, reject) => {
    server.once("error", cause => {
      const why = errnoOf(cause) ?? String(cause);
      reject(new CsiError("failed-precondition", `cannot serve metrics on ${host}:${port}: ${why}`, { cause }));
    });
    server.listen(port, host.replace(/^\[|\]$/g, ""), () => resolve());
  });
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : port,
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

async function answer(page: MetricsPage, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [path] = (request.url ?? "").split("?");
  if (request.method !== "GET" || path !== "/metrics") {
    response.writeHead(404, { "Content-Type": "text/plain; charset=utf-8" }).end("csimux serves GET /metrics here\n");
    return;
  }
  try {
    const text = await page.text();
    response.writeHead(200, { "Content-Type": page.contentType }).end(text);
  } catch {
    response.writeHead(500, { "Content-Type": "text/plain; charset=utf-8" }).end("the page could not be made\n");
  }
}
