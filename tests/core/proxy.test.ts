import { expect, test } from "bun:test";
import { parseSelector, selects } from "../../lib/core/proxy.ts";

test.each([
  ["tier=fast", true],
  ["tier==slow", false],
  ["tier!=slow", true],
  ["site!=a", true],
  ["tier in (slow, fast)", true],
  ["tier notin (slow, fast)", false],
  ["site notin (a)", true],
  ["tier", true],
  ["!tier", false],
  ["!site", true],
  ["tier=fast, !site", true],
  ["tier=fast, site", false],
  // Not labels, although every object has them.
  ["constructor", false],
  ["!toString", true],
])("%s on the label tier=fast: %j", (text, chosen) => {
  expect(selects(parseSelector(text), { tier: "fast" })).toBe(chosen);
});

test.each(["", "a,", "a = b c", "a in", "in (a)x", "a > 1"])("%j is not a selector", text => {
  expect(() => parseSelector(text)).toThrow("is not a label condition");
});
