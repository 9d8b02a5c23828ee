import { expect, test } from "bun:test";
import { Patience } from "../../lib/mux/patience.ts";
import { MemoryDriver } from "../fakes/memory-driver.ts";
import { failure } from "./world.ts";

test("who has not answered a question is not asked another until it has, but by a new driver", async () => {
  const patience = new Patience(20);
  const connection = { name: "c", driver: new MemoryDriver().driver(), suspended: false };
  const { promise, resolve } = Promise.withResolvers<void>();
  let asked = 0;
  const ask = (of = connection) =>
    patience.ask(of, () => {
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
