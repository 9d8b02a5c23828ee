import type { Log } from "../../lib/core/call.ts";
import { jsonWithoutSecrets } from "../../lib/core/secrets.ts";
import { clusterFacts } from "../../lib/daemon/cluster-facts.ts";
import { clusterAddress, type Machine } from "../../lib/daemon/node-facts.ts";
import { readSmallFile } from "../../lib/io/small-file.ts";
import { loopbackGate, tokenGate } from "../../lib/observe/page-access.ts";
import { type HttpPage, servePages } from "../../lib/observe/page-server.ts";
import type { StatusAnswer } from "../../lib/observe/status.ts";
import type { ServeOptions } from "./options.ts";

/** How long a page is reused, in milliseconds: it costs requests to every storage system and to the cluster. */
const reusedMs = 10_000;

const maxTokenBytes = 4_096;

/** Serves the status as a page for browsers. Throws "failed-precondition" if its token or address cannot be used. */
export async function beginPage(
  { address, tokenFile }: NonNullable<ServeOptions["page"]>,
  name: string,
  answer: () => Promise<StatusAnswer>,
  machine: Pick<Machine, "env">,
  log: Log,
): Promise<() => void> {
  const gate =
    tokenFile === undefined
      ? loopbackGate
      : await tokenGate(tokenFile, () => readSmallFile(tokenFile, maxTokenBytes), log);
  const api = clusterAddress(machine);
  const page = reused(async (): Promise<HttpPage> => {
    const { pageText, policy } = await import("../page/page.ts");
    // Before the volumes: of one that is deleted meanwhile, nothing is left that would make it count as lost.
    const cluster = api && (await clusterFacts(name, api));
    const shown = JSON.parse(jsonWithoutSecrets(await answer())) as StatusAnswer;
    const headers = {
      "Content-Security-Policy": `${policy}; frame-ancestors 'none'`,
      "X-Content-Type-Options": "nosniff",
      "Referrer-Policy": "no-referrer",
      "Cross-Origin-Resource-Policy": "same-origin",
      "Cache-Control": "no-store",
    };
    return { status: 200, contentType: "text/html; charset=utf-8", headers, text: pageText(shown, cluster, true) };
  });
  const pages = { "/": async (request: Parameters<typeof gate>[0]) => (await gate(request)) ?? page() };
  const { port, close } = await servePages("the status page", address, pages, log);
  log.info("serving the status page", { address: `${address.host}:${port}` });
  return close;
}

/** Runs `make` once for all who ask at the same time, and for those who ask shortly afterwards; a failure is not kept. */
function reused<T>(make: () => Promise<T>): () => Promise<T> {
  let last: { readonly result: Promise<T>; until: number } | undefined;
  return () => {
    if (last && performance.now() < last.until) return last.result;
    const entry = { result: make(), until: Number.POSITIVE_INFINITY };
    last = entry;
    entry.result.then(
      () => {
        entry.until = performance.now() + reusedMs;
      },
      () => {
        entry.until = 0;
      },
    );
    return entry.result;
  };
}
