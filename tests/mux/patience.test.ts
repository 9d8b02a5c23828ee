import { expect, test } from "bun:test";
import type { Call } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { ResponseTimeout } from "../../lib/mux/response-timeout.ts";
import { MemoryDriver, testCall } from "../fakes/memory-driver.ts";
import { failure } from "./world.ts";

test("who has not answered a question is not asked another until it has, but by a new driver", async () => {
  const patience = new ResponseTimeout(20, () => {});
  const connection = { name: "c", driver: new MemoryDriver().driver(), suspended: false };
  const { promise, resolve } = Promise.withResolvers<void>();
  let asked = 0;
  const ask = (of = connection) =>
    patience.ask(of, testCall(), () => {
      asked++;
      return promise;
    });
  for (let i = 0; i < 3; i++) expect((await failure(ask()))?.code).toBe("unavailable");
  const anew = { ...connection, driver: new MemoryDriver().driver() };
  expect((await failure(ask({ ...anew, suspended: true })))?.code).toBe("unavailable");
  expect(asked).toBe(1);
  expect((await failure(ask(anew)))?.code).toBe("unavailable");
  expect(asked).toBe(2);
  resolve();
  await promise;
  await Promise.resolve();
  expect(await failure(ask(anew))).toBeUndefined();
  expect(asked).toBe(3);
});

test("a question that is late is aborted, and so is one whose caller has left; the next is asked once it has ended", async () => {
  const patience = new ResponseTimeout(20, () => {});
  const connection = { name: "c", driver: new MemoryDriver().driver(), suspended: false };
  const obedient = (own: Call) =>
    new Promise<never>((_, reject) =>
      own.signal.addEventListener("abort", () => reject(own.signal.reason), { once: true }),
    );
  expect(await failure(patience.ask(connection, testCall(), obedient))).toMatchObject({
    code: "unavailable",
    message: 'connection "c" has not answered for 0.02 s',
  });
  expect(await patience.ask(connection, testCall(), async () => 7)).toBe(7);
  const client = new AbortController();
  const asked = failure(patience.ask(connection, testCall(client.signal), obedient));
  client.abort(new CsiError("aborted", "gone"));
  expect(await asked).toMatchObject({ code: "aborted" });
});
