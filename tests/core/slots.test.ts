import { expect, test } from "bun:test";
import { CsiError } from "../../lib/core/errors.ts";
import { Semaphore } from "../../lib/core/semaphore.ts";

test("what waits for a slot leaves with its call, takes none, and never begins", async () => {
  const slots = new Semaphore(1);
  const busy = Promise.withResolvers<void>();
  const first = slots.run(() => busy.promise);
  const call = new AbortController();
  let begun = false;
  const begin = async () => {
    begun = true;
  };
  const waiting = slots.run(begin, call.signal).catch((error: CsiError) => error.code);
  const next = slots.run(async () => "next", new AbortController().signal);
  call.abort();
  expect(await waiting).toBe("deadline-exceeded");
  expect(await slots.run(begin, call.signal).catch((error: CsiError) => error.code)).toBe("deadline-exceeded");
  busy.resolve();
  await first;
  expect(await next).toBe("next");
  expect(begun).toBe(false);
  expect(slots.idle).toBe(true);
});

test("a reason that a call was ended for is told", async () => {
  const reason = new CsiError("unavailable", "csimux is stopping");
  const refused = new Semaphore(1).run(async () => {}, AbortSignal.abort(reason));
  expect(await refused.catch((error: unknown) => error)).toBe(reason);
});
