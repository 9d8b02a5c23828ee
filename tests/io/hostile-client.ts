import { leasedDsm } from "../../lib/drivers/synology/client.ts";
import { leasedApi } from "../../lib/drivers/truenas/api.ts";
import { serverOf } from "../../lib/drivers/truenas/server.ts";
import { printCost } from "./process-cost.ts";

/** Calls of a hostile server, in a process of its own; see printCost. */

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
await printCost(async () => {
  const ends = await Promise.all(
    Array.from({ length: Number(calls) }, () =>
      ask().then(
        value => `answered ${JSON.stringify(value).length > 1000}`,
        (error: { readonly message: string }) => error.message,
      ),
    ),
  );
  return ends[0] ?? "";
});
