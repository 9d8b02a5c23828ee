import { expect, test } from "bun:test";
import type { CsiError } from "../../lib/core/errors.ts";
import { hour, nameOf, filesWorld as world } from "./files-world.ts";

test.each([
  ["refuse", "bad", "unavailable"],
  ["retry", "bad", "unavailable"],
  ["refuse", "unreadable", "unavailable"],
  ["retry", "unreadable", "unavailable"],
  ["refuse", undefined, "failed-precondition"],
  ["retry", undefined, "unavailable"],
] as const)(
  "an hour after the start, a connection named by a %s whose file is %p answers %s",
  async (origin, text, code) => {
    const { files, clock, connections } = world();
    clock.now = hour;
    if (text !== undefined) files.set("c", text);
    await expect(connections.use("c", origin, nameOf)).rejects.toMatchObject({ code });
  },
);

test("a class whose connection was removed answers UNAVAILABLE for an hour, since a volume may have been begun", async () => {
  const { files, clock, connections } = world();
  const code = () => connections.use("c", "refuse", nameOf).catch((error: CsiError) => error.code);
  clock.now = hour;
  expect(await code()).toBe("failed-precondition");
  files.set("c", "bad from the start");
  expect(await code()).toBe("unavailable");
  files.delete("c");
  expect(await code()).toBe("unavailable");
  files.set("c", "one");
  expect(await code()).toBe("c");
  for (const text of [undefined, "bad now", undefined]) {
    if (text === undefined) files.delete("c");
    else files.set("c", text);
    expect(await code()).toBe("unavailable");
  }
  clock.now = 2 * hour;
  expect(await code()).toBe("failed-precondition");
});

test("a class answers UNAVAILABLE for a connection that this process has never opened, for what the process before may have made", async () => {
  const { files, clock, connections } = world();
  const failed = () => connections.use("c", "refuse", nameOf).catch((error: CsiError) => error);
  expect(await failed()).toMatchObject({ code: "unavailable", message: expect.stringContaining("c.yaml") });
  files.set("c", "bad from the start");
  expect(await failed()).toMatchObject({ code: "unavailable", message: expect.stringContaining("line 1") });
  clock.now = 100 * hour;
  expect(await failed()).toMatchObject({ code: "unavailable" });
  files.delete("c");
  expect(await failed()).toMatchObject({ code: "unavailable" });
  clock.now += hour;
  expect(await failed()).toMatchObject({ code: "failed-precondition" });
});
