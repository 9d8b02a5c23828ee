import { leasedDsm } from "../../lib/drivers/synology/clients.ts";
import { leasedApi } from "../../lib/drivers/truenas/clients.ts";
import { serverOf } from "../../lib/drivers/truenas/server.ts";

/** Calls of a hostile server, in a process of its own: prints how they ended, what they cost, and how long the event loop stood still. */

const [kind = "", port = "", calls = "1"] = process.argv.slice(2);
const never = new AbortController().signal;
const http = { protocol: "http", host: "127.0.0.1", port: Number(port), allowInsecure: false } as const;

function asked(): () => Promise<unknown> {
  if (kind === "dsm") {
    const settings = { ...http, ca: undefined, fingerprint: undefined };
    const dsm = leasedDsm(
      { http: settings, username: "csi", password: "p", session: undefined, serialize: false },
      "c1",
    );
    return () => dsm.call({ api: "SYNO.Core.ISCSI.LUN", method: "list" }, never);
  }
  const { api } = leasedApi(serverOf({ ...http, apiKey: "1-secret" }), "c1");
  return () => api.call("pool.dataset.query", [[], {}], never);
}

const ask = asked();
const begin = process.memoryUsage.rss();
let most = begin;
let longest = 0;
let last = performance.now();
const sampling = setInterval(() => {
  const now = performance.now();
  longest = Math.max(longest, now - last);
  last = now;
  most = Math.max(most, process.memoryUsage.rss());
}, 5);
const ends = await Promise.all(
  Array.from({ length: Number(calls) }, () =>
    ask().then(
      value => `answered ${JSON.stringify(value).length > 1000}`,
      (error: { readonly message: string }) => error.message,
    ),
  ),
);
clearInterval(sampling);
const grownMiB = Math.round((most - begin) / (1 << 20));
process.stdout.write(JSON.stringify({ how: ends[0], grownMiB, longestMs: Math.round(longest) }));
process.exit(0);
