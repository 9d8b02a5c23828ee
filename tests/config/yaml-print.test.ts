import { expect, test } from "bun:test";
import { parse } from "yaml";
import { yamlText } from "../../lib/yaml/print.ts";

test("a value that holds the same objects many times is printed without anchors", () => {
  const places = Array.from({ length: 100 }, (_, index) => ({ zone: `z${index}` }));
  const value = Array.from({ length: 5 }, () => ({ requisite: places, size: "12" }));
  const text = yamlText(value);
  expect(text).not.toMatch(/[&*]a\d/);
  expect(parse(text, { maxAliasCount: 0 })).toEqual(value);
});
