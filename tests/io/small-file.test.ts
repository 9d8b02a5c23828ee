import { expect, test } from "bun:test";
import { readSmallFile } from "../../lib/io/small-file.ts";

test("the limit applies to files without a size, as in /proc", async () => {
  const error = await readSmallFile("/proc/self/maps", 16).catch((cause: unknown) => cause);
  expect(error).toMatchObject({
    code: "failed-precondition",
    message: expect.stringContaining("larger than 16 bytes"),
  });
});

test("a file of exactly the limit is read", async () => {
  expect(await readSmallFile("/proc/sys/kernel/ostype", 6)).toBe("Linux\n");
});
