import { expect, test } from "bun:test";
import { unusedExports } from "../../scripts/check/exports.ts";

const one = {
  path: "lib/one.ts",
  text: "export const a = 1;\nexport function b() {}\nexport type C = D;\nexport type D = 1;\n",
};
const unused = (path: string, text: string) => unusedExports([one, { path, text }]);

test("an export that no other file imports is found, with what to do", () => {
  expect(unused("lib/two.ts", 'import { type C, a as other } from "./one.ts";\n')).toEqual([
    "lib/one.ts:2: b: nothing uses it: remove it",
  ]);
  expect(unusedExports([{ path: "cmd/one.ts", text: "export const a = 1;\nconsole.log(a);\n" }])).toEqual([
    'cmd/one.ts:1: a: only its own file uses it: remove "export"',
  ]);
});

test("a type that its own file uses may be exported, another one may not", () => {
  expect(unused("lib/two.ts", 'import { a, b } from "./one.ts";\n')).toEqual([
    "lib/one.ts:3: C: nothing uses it: remove it",
  ]);
});

test.each([
  ["lib/two.ts", 'import * as one from "./one.ts";'],
  ["lib/two.ts", 'export * from "./one.ts";'],
  ["cmd/deep/two.ts", 'const one = await import("../../lib/one.ts");'],
  ["tests/one.test.ts", 'import {\n  a,\n  b,\n  type C,\n} from "../lib/one.ts";'],
])("an import by %s counts: %s", (path, text) => {
  expect(unused(path, `${text}\n`)).toEqual([]);
});
