import { expect, test } from "bun:test";
import { pageSize, requiredName } from "../../lib/csi/convert.ts";

test.each([
  ["", "name is missing"],
  ["a".repeat(129), "name is longer than 128 bytes"],
  ["\u00fc".repeat(65), "name is longer than 128 bytes"],
  ["a\u0000b", "name contains a control character"],
  ["a\u001bb", "name contains a control character"],
  ["a\u0085b", "name contains a control character"],
])("the name %j of something new is refused", (name, message) => {
  expect(() => requiredName(name)).toThrow(expect.objectContaining({ code: "invalid-argument", message }));
});

test.each(["a", "a".repeat(128), "a\tb\r\n", "\u00fc\u4e2d /.."])("the name %j of something new is taken", name => {
  expect(requiredName(name)).toBe(name);
});

test("a page has no negative size, and 0 leaves it to csimux", () => {
  expect([pageSize(0), pageSize(2)]).toEqual([0, 2]);
  expect(() => pageSize(-1)).toThrow(expect.objectContaining({ code: "invalid-argument" }));
});
