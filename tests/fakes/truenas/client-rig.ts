import { type Api, apiOf } from "../../../lib/drivers/truenas/api.ts";
import { Client } from "../../../lib/drivers/truenas/client.ts";
import { type HttpConnection, serverOf } from "../../../lib/drivers/truenas/server.ts";
import { pause } from "../../waiting.ts";
import { type Double, type DoubleOptions, startDouble } from "./double.ts";
import type { Version } from "./versions.ts";

/** How a client reaches a double: over loopback, with the key that every double knows. */
export const connectionTo = (double: Double, more: Partial<HttpConnection> = {}): HttpConnection => ({
  protocol: "http",
  host: "127.0.0.1",
  port: double.port,
  allowInsecure: false,
  apiKey: "1-secret",
  ...more,
});

/** What a job answers when the time of its call is over, which is as soon as its client has asked about it. */
export async function outOfTime(double: Double, job: (signal: AbortSignal) => Promise<unknown>): Promise<unknown> {
  const before = double.jobs.looks;
  const limit = new AbortController();
  const answer = job(limit.signal).catch((error: unknown) => error);
  while (double.jobs.looks === before) await pause(2);
  limit.abort(new DOMException("the time is over", "TimeoutError"));
  return answer;
}

/** Runs `work` with a double, which ends with it. */
export async function withDouble(options: DoubleOptions, work: (double: Double) => Promise<void>): Promise<void> {
  const double = await startDouble(options);
  try {
    await work(double);
  } finally {
    await double.close();
  }
}

/** The signal of a call without limit. */
export const never = new AbortController().signal;

/** Runs `work` with a client of a double of this version. */
export async function withApi(
  version: Version,
  work: (api: Api, double: Double, client: Client) => Promise<void>,
  more: Partial<HttpConnection> = {},
): Promise<void> {
  await withDouble({ version }, async double => {
    const client = new Client(serverOf(connectionTo(double, more)));
    try {
      await work(apiOf(client, "c1"), double, client);
    } finally {
      client.close();
    }
  });
}

/** What some work fails with; the text of its answer when it does not fail. */
export const errorOf = async (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    answer => `answered ${JSON.stringify(answer)}`,
    (error: unknown) => error,
  );

/** Creates a dataset. */
export const make = (api: Api, name: string) => api.call("pool.dataset.create", [{ name, type: "FILESYSTEM" }], never);
