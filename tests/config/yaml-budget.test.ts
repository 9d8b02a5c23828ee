import { describe, expect, test } from "bun:test";
import { readConnection } from "../../lib/config/connection.ts";
import { noDefaults, readProxyConfig } from "../../lib/config/proxy.ts";
import { modules } from "../../lib/drivers/index.ts";
import { fileBudget, manifestBudget } from "../../lib/yaml/budget.ts";
import { parseYaml, parseYamlDocuments } from "../../lib/yaml/parse.ts";

const outside = { env: () => undefined, file: () => undefined };

/** As many lines as make 900 kB. */
function lines(line: (index: number) => string): string {
  let text = "";
  for (let index = 0; text.length < 900_000; index++) text += line(index);
  return text;
}

/** k1 takes in k0, k2 takes in k1, and so on. */
const chain = (length: number): string =>
  Array.from({ length }, (_, i) =>
    i === 0 ? "k0: &k0 {<<: {}, z0: 1}\n" : `k${i}: &k${i} {<<: *k${i - 1}, z${i}: 1}\n`,
  ).join("");

/** Each takes in the one before it twice. */
const doubling = Array.from({ length: 60 }, (_, i) =>
  i === 0 ? "k0: &k0 {z0: 1}\n" : `k${i}: &k${i} {<<: [*k${i - 1}, *k${i - 1}]}\n`,
).join("");

const wide = `a: &a {${Array.from({ length: 2000 }, (_, i) => `x${i}: 1`).join(", ")}}\n`;
const uses = (line: string) => wide + Array.from({ length: 100 }, (_, i) => `b${i}: ${line}\n`).join("");

const merges: readonly (readonly [string, string, string])[] = [
  ["300 chained merges", chain(300), "yaml-alias"],
  ["600 chained merges", chain(600), "yaml-alias"],
  ["1000 chained merges", chain(1000), "yaml-alias"],
  ["3000 chained merges", chain(3000), "yaml-too-large"],
  ["merges that double each time", doubling, "yaml-alias"],
  ["a hundred merges of a wide mapping", uses("{<<: *a}"), "yaml-alias"],
  ["a hundred aliases of a wide mapping", uses("*a"), "yaml-alias"],
  ["a mapping merged into itself", "a: &a {<<: *a, b: 1}\n", "yaml-alias"],
  ["a list in itself", "a: &a [*a]\n", "yaml-alias"],
  [
    "aliases of a list of aliases of a list",
    `a: &a [${"x,".repeat(1000)}]\nb: &b [${"*a,".repeat(10)}]\nc: &c [${"*b,".repeat(10)}]\nd: [${"*c,".repeat(10)}]\n`,
    "yaml-alias",
  ],
  ["many aliases", `x: &x 1\n${Array.from({ length: 201 }, (_, i) => `y${i}: *x\n`).join("")}`, "yaml-alias"],
];

const large: readonly (readonly [string, string])[] = [
  ["keys", lines(i => `key${i}: 1\n`)],
  ["items", lines(() => "- a\n")],
  ["items in brackets", `[${lines(() => "a,")}]`],
  ["keys in braces", `{${lines(i => `a${i}: 1, `)}}`],
  ["opening brackets", "[".repeat(900_000)],
  ["opening braces", "{a: ".repeat(225_000)],
  ["nested dashes", "- ".repeat(450_000)],
  ["comments", lines(() => "# c\n")],
  ["blank lines", "\n".repeat(900_000)],
  ["anchors", lines(i => `a${i}: &a${i} 1\n`)],
  ["aliases", `x: &x 1\n${lines(i => `k${i}: *x\n`)}`],
  ["tags", lines(() => "- !x a\n")],
  ["documents", lines(() => "---\n")],
  ["question marks", "? ".repeat(450_000)],
  ["quotes", '"'.repeat(900_000)],
];

const deep: readonly (readonly [string, string])[] = [
  ["by indentation", Array.from({ length: 1300 }, (_, i) => `${" ".repeat(i)}a:\n`).join("")],
  ["by brackets", `a: ${"[".repeat(300)}${"]".repeat(300)}\n`],
  ["by dashes", `${"- ".repeat(7_000)}a\n`],
];

/** A connection file as the daemon reads it. */
const connection = (text: string) => readConnection("c", "c.yaml", text, noDefaults, outside, modules);

describe("a file that would take long to read is refused first", () => {
  test.each(merges)("%s", (_what, text, rule) => {
    const begun = process.cpuUsage();
    expect(connection(text).diagnostics).toMatchObject([{ rule, blocks: true }]);
    expect(readProxyConfig("p.yaml", text, outside).diagnostics).toMatchObject([{ rule, blocks: true }]);
    // It was seconds to hours of the processor's time without a budget, and milliseconds with it.
    expect(process.cpuUsage(begun).user).toBeLessThan(1_000_000);
  });

  test.each(large)("900 kB of %s", (_what, text) => {
    expect(connection(text).diagnostics).toMatchObject([
      { rule: "yaml-too-large", message: expect.stringContaining(`${fileBudget.parts}`) },
    ]);
    expect(readProxyConfig("p.yaml", text, outside).diagnostics).toMatchObject([{ rule: "yaml-too-large" }]);
  });

  test.each(deep)("too deep %s", (_what, text) => {
    const begun = process.cpuUsage();
    expect(connection(text).diagnostics).toMatchObject([{ rule: "yaml-too-deep", blocks: true }]);
    expect(process.cpuUsage(begun).user).toBeLessThan(1_000_000);
  });
});

describe("ordinary files are within the budget", () => {
  test("a hundred chained merges, as many anchors, and the last key wins", () => {
    const begun = process.cpuUsage();
    const { value, diagnostics } = parseYaml("f.yaml", chain(100));
    expect(process.cpuUsage(begun).user).toBeLessThan(1_000_000);
    expect(diagnostics).toEqual([]);
    expect((value as { k99: object }).k99).toMatchObject({ z0: 1, z99: 1 });
  });

  test("a large text in one value", () => {
    const { value, diagnostics } = parseYaml("f.yaml", `a: |\n${lines(() => "  line of a key\n")}`);
    expect(diagnostics).toEqual([]);
    expect((value as { a: string }).a.length).toBeGreaterThan(700_000);
  });

  test("a main file with a thousand members of a group", () => {
    const members = Array.from({ length: 1000 }, (_, i) => `        - nas${i}\n`).join("");
    const text = `driver: proxy\nproxy:\n  configFolder: /c\n  groups:\n    all:\n      members:\n${members}`;
    expect(readProxyConfig("p.yaml", text, outside).diagnostics).toEqual([]);
  });

  test("a manifest may have many more parts than a file of configuration", () => {
    const text = lines(i => `key${i}: 1\n`);
    expect(parseYamlDocuments("f.yaml", text, manifestBudget)[0]?.diagnostics).toEqual([]);
  });
});
