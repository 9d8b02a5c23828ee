import { expect, test } from "bun:test";
import { groupBy } from "../../lib/core/group-by.ts";

test("items are grouped by key, in order of appearance", () => {
  const groups = groupBy(["pear", "fig", "plum", "kiwi"], word => word.length);
  expect([...groups]).toEqual([
    [4, ["pear", "plum", "kiwi"]],
    [3, ["fig"]],
  ]);
});
