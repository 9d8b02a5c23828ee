import { expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import { afterFailure } from "../../lib/drivers/failure.ts";
import { testCall } from "../fakes/memory-driver.ts";

test("a creation whose remains cannot be looked for may have left something, which is not told as a fact", async () => {
  const refused = new CsiError("unauthenticated", 'connection "nas": the API key is wrong');
  const undo = () => Promise.reject(refused);
  const subject = { connection: "nas", explain: () => undefined };
  expect(await afterFailure(refused, undo, subject, "create", testCall())).toMatchObject({
    code: "unavailable",
    message: 'connection "nas": the API key is wrong; retry the call: a part of it may exist',
  });
});
