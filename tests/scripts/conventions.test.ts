import { expect, test } from "bun:test";
import { brokenConventions, type Source } from "../../scripts/check/conventions.ts";

const file = (path: string, text: string): Source => ({ path, text });
const broken = (...all: readonly Source[]) => brokenConventions(all, {});

test.each([
  ["a comment", "// A share that was lost is made anew.\n", 1],
  ["a docstring of several lines", "const a = 1;\n/**\n * The copy goes\n * on.\n */\n", 3],
  ["a message", 'throw new Error("nobody listens");\n', 1],
  ["a template", "log(`${name} is no driver`);\n", 1],
])("a phrase in %s is found with its line and a replacement", (_, text, line) => {
  expect(broken(file("lib/mux/a.ts", text))).toEqual([
    expect.stringMatching(new RegExp(`^lib/mux/a\\.ts:${line}: ".+": write `)),
  ]);
});

test("names in code and other words are not phrases", () => {
  const text = "const anew = nobody(1);\n// There is no driver. The URL is https://anew.example.\n";
  expect(broken(file("lib/mux/a.ts", text.replace("https://anew.example", "https://example.org")))).toEqual([]);
});

test("the baseline allows an area its number of a phrase, and no more", () => {
  const one = file("lib/mux/a.ts", "// made anew\n");
  const baseline = { phrases: { anew: { "lib/mux": 1 } } };
  expect(brokenConventions([one], baseline)).toEqual([]);
  expect(brokenConventions([one, file("lib/mux/b.ts", "// made anew\n")], baseline)).toEqual([
    expect.stringContaining("lib/mux: 2; at most 1 are allowed"),
  ]);
});

test("a folder has at most 25 files, a file at most 300 lines, and an exported type one definition", () => {
  const files = Array.from({ length: 26 }, (_, index) => file(`lib/node/f${index}.ts`, ""));
  expect(broken(...files)).toEqual([expect.stringMatching(/^lib\/node has 26 files: /)]);
  expect(broken(...files.slice(1))).toEqual([]);
  expect(broken(file("cmd/long.ts", "\n".repeat(301)))).toEqual([
    expect.stringMatching(/^cmd\/long\.ts has 301 lines: /),
  ]);
  const type = "export interface Target {\n";
  expect(broken(file("lib/io/a.ts", type), file("cmd/b.ts", "export type Target = string;\n"))).toEqual([
    "Target is exported by lib/io/a.ts and cmd/b.ts: rename one of them",
  ]);
  expect(broken(file("lib/io/a.ts", type), file("tests/b.ts", type))).toEqual([]);
});

test.each([
  ["a call", "    return calls.make(lease.connection);", 1],
  ["a call inside a condition", "    if (a) return own.log.info(b);\n    return a ? b() : c;", 2],
  ["an awaited call", "    return await calls.make(lease.connection);", 0],
  [
    "a name, an object and a template",
    "    if (a) {\n      return { a: b(c) };\n    }\n    return `${a}`;\n    return held.value;",
    0,
  ],
  ["a call after the block", "  }\n  return calls.make(other);", 0],
])("%s in a block with `using` is returned after an await", (_, lines, count) => {
  const text = `async function f() {\n  return g();\n  {\n    using lease = await lend();\n${lines}\n}\n`;
  expect(broken(file("lib/mux/a.ts", text))).toHaveLength(count);
});
