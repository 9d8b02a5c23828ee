import type { HttpConnection } from "../../../lib/drivers/truenas/server.ts";
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

/** Runs `work` with a double, which ends with it. */
export async function withDouble(options: DoubleOptions, work: (double: Double) => Promise<void>): Promise<void> {
  const double = await startDouble(options);
  try {
    await work(double);
  } finally {
    await double.close();
  }
}
