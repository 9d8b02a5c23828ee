import { describe, expect, test } from "bun:test";
import { fileBudget, manifestBudget } from "../../lib/yaml/budget.ts";
import { parseYaml, parseYamlDocuments } from "../../lib/yaml/parse.ts";

const value = (text: string): unknown => parseYaml("f.yaml", text).value;
const first = (text: string) => parseYaml("f.yaml", text).diagnostics[0];

describe("reading YAML", () => {
  test.each([
    ["3260", 3260],
    ["-1", -1],
    ["0.5", 0.5],
    ["true", true],
    ["null", null],
    ["0777", "0777"],
    ["0o777", "0o777"],
    ["0x10", "0x10"],
    ["1e3", "1e3"],
    ["1.50", "1.50"],
    [".inf", ".inf"],
    ["-0", "-0"],
    ["+5", "+5"],
    ["12345678901234567890", "12345678901234567890"],
    ["True", "True"],
    ["yes", "yes"],
    ['"1"', "1"],
  ])("%s is read so that its text is never lost", (text, expected) => {
    expect(value(`key: ${text}`)).toEqual({ key: expected });
  });

  test("a byte order mark and CRLF change neither values nor positions", () => {
    const source = parseYaml("f.yaml", "\uFEFFa: 1\r\nb:\r\n  c: 2\r\n");
    expect(source.value).toEqual({ a: 1, b: { c: 2 } });
    expect(source.position(["b", "c"], "key")).toEqual({ line: 3, column: 3 });
  });

  test("anchors, aliases and merge keys work, and positions are those of the value in the text", () => {
    const source = parseYaml("f.yaml", "a: &x\n  deep: 1\nb:\n  <<: *x\n  own: [1, {k: 2}]\n");
    expect(source.value).toMatchObject({ b: { deep: 1, own: [1, { k: 2 }] } });
    expect(source.position(["b", "deep"], "value")).toEqual({ line: 2, column: 9 });
    expect(source.position(["b", "own", 1, "k"], "value")).toEqual({ line: 5, column: 16 });
  });

  test("a missing path has the position of the nearest node around it", () => {
    const source = parseYaml("f.yaml", "a:\n  b: 1\n");
    expect(source.position(["a", "x", "y"], "value")).toEqual({ line: 1, column: 1 });
    expect(source.position([], "value")).toEqual({ line: 1, column: 1 });
  });

  test.each([
    ["duplicate keys", "a: 1\nb: 2\na: 3\n", "duplicate-key", 3, 1],
    ["a tab", "a:\n\tb: 1\n", "yaml-syntax", 2, 1],
    ["an open quote", 'a: "x\nb: 1\n', "yaml-syntax", 1, 4],
    ["an alias of nothing", "a: *no\n", "yaml-alias", 1, 4],
    ["two documents", "a: 1\n---\nb: 1\n", "yaml-syntax", 2, 1],
    ["an alias inside itself", "a: &a {<<: *a}\n", "yaml-alias", 1, 12],
  ])("%s is an error with its place", (_what, text, rule, line, column) => {
    expect(first(text)).toMatchObject({ rule, line, column, severity: "error", blocks: true });
    expect(value(text)).toBeNull();
  });

  test.each([
    ["an anchor before nothing", "a:\n  b: &x\n", 2, "starts an anchor"],
    ["a merge of text", "a:\n  <<: text\n", 2, '"<<" needs a mapping'],
    ["a merge of an alias of text", "a: &x text\nb:\n  <<: *x\n", 3, '"<<" needs a mapping'],
    ["a key without a space behind the colon", "a:\n  x: 1\n  b:2\nc: 3\n", 3, 'is not "key: value"'],
    ["brackets in thousands", `a: ${"[".repeat(500)}${"]".repeat(500)}\n`, 1, "nested more than 200 levels"],
  ])("%s is explained where it stands", (_what, text, line, message) => {
    expect(first(text)).toMatchObject({ line, message: expect.stringContaining(message), blocks: true });
  });

  test("an anchor before an empty quoted text or a written null is not an error", () => {
    expect(value('a: &x ""\nb: &y ~\nc: *x\n')).toEqual({ a: "", b: null, c: "" });
  });

  test("aliases that multiply are refused without being expanded", () => {
    const levels = Array.from(
      { length: 12 },
      (_, i) =>
        `l${i}: &l${i} [${
          i === 0
            ? "x"
            : Array(9)
                .fill(`*l${i - 1}`)
                .join(",")
        }]`,
    );
    expect(first(levels.join("\n"))).toMatchObject({ rule: "yaml-alias", blocks: true });
  });

  test("deep nesting is reported and does not crash", () => {
    expect(first("[".repeat(10_000))).toMatchObject({ rule: "yaml-too-deep", blocks: true });
  });

  test("a huge file is refused before it is parsed", () => {
    expect(first("a".repeat(fileBudget.bytes + 1))).toMatchObject({ rule: "yaml-too-large" });
  });

  test("no message quotes the file", () => {
    for (const text of [
      "a: hunter2: b\n",
      "password: %hunter2\n",
      'a: "hunter2\\q"\n',
      "a: hunter2 *x\n- hunter2\n",
      "a: [hunter2\n",
    ]) {
      expect(JSON.stringify(parseYaml("f", text).diagnostics)).not.toContain("hunter2");
    }
  });

  test("several documents are read one by one", () => {
    const all = parseYamlDocuments("f.yaml", "a: 1\n---\nb:\n  c: 1\n", manifestBudget);
    expect(all.map(each => each.value)).toEqual([{ a: 1 }, { b: { c: 1 } }]);
    expect(all[1]?.position(["b", "c"], "key")).toEqual({ line: 4, column: 3 });
  });
});
