import { expect, test } from "bun:test";
import { walk } from "../../scripts/try.ts";
import { World } from "../serve/world.ts";

test("the walk of `make try` comes to its end, every time, and leaves nothing on the two connections", async () => {
  const world = await World.start("off", ["fast", "archive"]);
  try {
    for (const _ of [1, 2]) {
      const lines: string[] = [];
      await walk(world.sandbox.socket, (call, answer) => void lines.push(`${call}: ${answer}`));
      expect(lines.filter(line => line.endsWith(": gone"))).toHaveLength(4);
      for (const name of ["fast", "archive"]) expect(await world.stored(name)).toEqual([]);
    }
  } finally {
    expect(await world.end()).toEqual([]);
  }
});
