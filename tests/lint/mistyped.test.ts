import { describe, expect, test } from "bun:test";
import { connections } from "./cases/connections.ts";
import { main } from "./cases/good.ts";
import { check, seen } from "./checking.ts";

/** Mappings whose keys are the user's own, or those of another program. */
const free: ReadonlySet<string> = new Set([
  ...["fast", "both", "allow_any_host", "OBJECTSTORE", "ENDPOINT", "SECRET_KEY", "OBJECTIVEFS_PASSPHRASE"],
  ...["authentication", "generate_node_acls", "cache_dynamic_acls", "demo_mode_write_protect"],
]);

const key = /^(\s*(?:- )?)([A-Za-z_][\w-]*)(:.*)$/;

/** Each key of a file, once with a letter missing and once with two letters exchanged. */
function* mistyped(text: string): Iterable<{ line: number; name: string; typo: string; text: string }> {
  const lines = text.split("\n");
  for (const [index, content] of lines.entries()) {
    const [, before = "", name = "", after = ""] = key.exec(content) ?? [];
    if (name.length < 4 || free.has(name)) continue;
    const middle = name.length >> 1;
    const swapped = name.slice(0, middle - 1) + name[middle] + name[middle - 1] + name.slice(middle + 1);
    for (const typo of [name.slice(0, middle) + name.slice(middle + 1), swapped]) {
      if (typo === name) continue;
      const changed = lines.with(index, `${before}${typo}${after}`).join("\n");
      yield { line: index + 1, name, typo, text: changed };
    }
  }
}

describe("a mistyped key", () => {
  const files = [
    ...Object.entries(connections).map(([name, text]) => [`${name}.yaml`, text] as const),
    ["proxy.yaml", main] as const,
  ];

  test.each(files)("of %s is found on its line, and the right one is named first", (file, text) => {
    const missed: string[] = [];
    for (const { line, name, typo, text: changed } of mistyped(text)) {
      const problems = check({ [file]: changed }).filter(problem => problem.line === line);
      if (!problems.some(({ fix = "" }) => fix.includes(`"${name}"`))) {
        missed.push(`${line}: ${name} as ${typo}: ${problems.map(each => `${each.message}; ${each.fix}`).join(" | ")}`);
      }
    }
    expect(missed).toEqual([]);
  });
});

describe("a deleted line", () => {
  test.each(Object.entries(connections))("of %s is not needed, or its key is named", (driver, text) => {
    const lines = text.split("\n");
    const unexplained: string[] = [];
    for (const [index, content] of lines.entries()) {
      const name = key.exec(content)?.[2] ?? "";
      const rest = lines.toSpliced(index, 1).join("\n");
      const [first] = check({ [`${driver}.yaml`]: rest });
      if (!first || name === "") continue;
      const words = `${first.message} ${first.fix ?? ""}`;
      if (!words.includes(name) && !/indentation|is not a section|keys|occurs twice/.test(words))
        unexplained.push(`${name}: ${words}`);
    }
    expect(unexplained).toEqual([]);
  });
});

test.each(["{ toString: [1-planted-secret] }", "[{ toString: 1-planted-secret }]"])(
  "%s where a number belongs, next to the keys of secrets, is named and not shown",
  value => {
    const text = (connections["freenas-api-nfs"] ?? "").replace(/\n {2}port: .*/, `\n  port: ${value}`);
    expect(text).toContain("1-planted-secret");
    const problems = check({ "freenas-api-nfs.yaml": text });
    expect(problems.some(({ path }) => path === "httpConnection.port")).toBe(true);
    expect(seen(problems)).not.toContain("planted");
  },
);

test("a secret below a key for something else, next to the keys of secrets, is not shown", () => {
  const text = connections["freenas-api-nfs"] ?? "";
  for (const key of ["protocol", "port"]) {
    const wrong = text
      .replace(/httpConnection:\n/, `httpConnection:\n  ${key}: 1-planted-secret\n`)
      .replace(new RegExp(`\n  ${key}: (?!1-planted).*`), "");
    expect(wrong).toContain("1-planted-secret");
    const problems = check({ "freenas-api-nfs.yaml": wrong });
    expect(problems.some(({ path }) => path === `httpConnection.${key}`)).toBe(true);
    expect(JSON.stringify(problems)).not.toContain("planted");
  }
});

test("a text where a mapping with secrets belongs is not shown: it may be keys and values that lost their colons", () => {
  const wrong = (connections["objectivefs"] ?? "").replace(
    /\n {2}env:\n(?: {4}.*\n)+/,
    "\n  env:\n    OBJECTSTORE 1-planted-secret\n",
  );
  expect(wrong).toContain("1-planted-secret");
  const problems = check({ "objectivefs.yaml": wrong });
  expect(problems.some(({ path }) => path === "objectivefs.env")).toBe(true);
  expect(JSON.stringify(problems)).not.toContain("planted");
});
