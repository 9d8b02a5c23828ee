import type { HttpConnection } from "../../../lib/drivers/truenas/server.ts";
import { pause } from "../../waiting.ts";
import { type Double, type DoubleOptions, startDouble } from "./double.ts";

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
