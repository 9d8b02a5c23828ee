import { expect, test } from "bun:test";
import { ManualDriver } from "../../lib/drivers/node-manual/driver.ts";

const driver = new ManualDriver({ connection: "hand" });

test("a connection of volumes made by hand makes none, and says of none that it was deleted", async () => {
  await expect(driver.create()).rejects.toMatchObject({
    code: "invalid-argument",
    message: expect.stringContaining('connection "hand" makes no volumes'),
  });
  await expect(driver.delete("share-1")).rejects.toMatchObject({
    code: "failed-precondition",
    message: expect.stringContaining('volume "share-1" stays'),
  });
  expect(await driver.check()).toBeUndefined();
});

test("and offers no ability of a driver that makes volumes", () => {
  expect(Object.keys(driver).sort()).toEqual(["access", "protocol"]);
});
