import { expect, test } from "bun:test";
import { Maintenance } from "../../lib/node/state/maintenance.ts";
import { keptLog } from "./lab.ts";

test("maintenance repeats its tasks until it is stopped", async () => {
  let looks = 0;
  const again = Promise.withResolvers<void>();
  const look = async () => {
    if (++looks === 3) again.resolve();
  };
  const care = new Maintenance([{ run: look }]);
  care.start(20, keptLog().log);
  await again.promise;
  care.stop();
  expect(looks).toBe(3);
});
