import { expect, test } from "bun:test";
import type { Call } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { type Connection, ConnectionRecord } from "../../lib/mux/connection.ts";
import { StorageCalls } from "../../lib/mux/storage-calls.ts";
import { MemoryDriver, testCall } from "../fakes/memory-driver.ts";
import { codeOf, failure } from "./world.ts";

const { log } = testCall();

/** Timed calls of a connection, 20 ms each. */
function world() {
  const record = new ConnectionRecord("c", log, () => 0);
  const connections = {
    record: () => record,
    keep: () => {},
    useIfHealthy: async () => undefined,
    rereadNamed: () => false,
  };
  const calls = new StorageCalls(connections, { look: 20, capacity: 20 }, log);
  const driver = new MemoryDriver().driver();
  const plain = { name: "c", driverName: "memory", family: "memory", driver, access: driver.access };
  const connection: Connection = { ...plain, accessibleTopology: [], labels: {}, suspended: false, retain: false };
  const ask = <T>(work: (own: Call) => Promise<T>, of = connection, call = testCall()) =>
    calls.read("lookup", of, call, work);
  return { connection, ask };
}

test("a connection with an unanswered call gets no further one until it has answered, unless it was reopened", async () => {
  const { connection, ask: asking } = world();
  const { promise, resolve } = Promise.withResolvers<void>();
  let asked = 0;
  const ask = (of = connection) =>
    asking(() => {
      asked++;
      return promise;
    }, of);
  for (let i = 0; i < 3; i++) expect(await codeOf(ask())).toBe("unavailable");
  const reopened = { ...connection, driver: new MemoryDriver().driver() };
  expect(await codeOf(ask({ ...reopened, suspended: true }))).toBe("unavailable");
  expect(asked).toBe(1);
  expect(await codeOf(ask(reopened))).toBe("unavailable");
  expect(asked).toBe(2);
  resolve();
  await promise;
  await Promise.resolve();
  expect(await failure(ask(reopened))).toBeUndefined();
  expect(asked).toBe(3);
});

test("a late call is aborted, and so is one whose caller has left; the next runs once it has ended", async () => {
  const { connection, ask } = world();
  const obedient = (own: Call) =>
    new Promise<never>((_, reject) =>
      own.signal.addEventListener("abort", () => reject(own.signal.reason), { once: true }),
    );
  expect(await failure(ask(obedient))).toMatchObject({
    code: "unavailable",
    message: 'connection "c" has not answered for 0.02 s',
  });
  expect(await ask(async () => 7)).toBe(7);
  const client = new AbortController();
  const asked = failure(ask(obedient, connection, testCall(client.signal)));
  client.abort(new CsiError("aborted", "gone"));
  expect(await asked).toMatchObject({ code: "aborted" });
});
