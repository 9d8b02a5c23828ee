import { describe, expect, test } from "bun:test";
import { modules } from "../../lib/drivers/index.ts";
import type { Input } from "../../lib/lint/input.ts";
import { lint } from "../../lib/lint/lint.ts";
import type { Example, Rule } from "../../lib/lint/rules/rule.ts";
import { rules } from "../../lib/lint/rules.ts";
import { patternCompiler } from "../../lib/topology/pattern.ts";

const compile = await patternCompiler(["."]);
const world = { env: (name: string) => (name === "PATH_THAT_IS_SET" ? "x" : undefined), file: () => undefined };
const environmental = new Set(["unset-variable", "unreadable-file"]);

const run = (example: Example, { id }: Rule) => {
  const inputs = Object.entries(example).map(
    ([file, text]): Input => ({ file, text, role: file === "proxy.yaml" ? "main" : "given" }),
  );
  return lint(inputs, { modules, outside: world, checkEnvironment: environmental.has(id), compile }).problems;
};

const words = (problems: ReturnType<typeof run>) =>
  problems.map(({ file, line, rule, message }) => `${file}:${line} ${rule} ${message}`);

describe("the rules", () => {
  test("have ids of their own", () => {
    const ids = rules.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.filter(id => !/^[a-z]+(?:-[a-z]+)*$/.test(id))).toEqual([]);
  });

  // Connecting is the command's part; see tests/cmd/validate.test.ts.
  const offline = rules.filter(({ id }) => id !== "connection-check");

  test.each(offline.map(rule => [rule.id, rule] as const))(
    "%s: the bad example breaks it, with a place",
    (id, rule) => {
      const problems = run(rule.bad, rule);
      const found = problems.find(problem => problem.rule === id);
      expect(found ? [] : words(problems)).toEqual([]);
      expect(found).toMatchObject({ severity: rule.severity });
      expect(found?.line).toBeGreaterThan(0);
      expect(found?.column).toBeGreaterThan(0);
    },
  );

  test.each(rules.map(rule => [rule.id, rule] as const))("%s: the good example has no finding", (_id, rule) => {
    expect(words(run(rule.good, rule))).toEqual([]);
  });
});
