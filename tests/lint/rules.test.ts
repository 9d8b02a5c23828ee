import { describe, expect, test } from "bun:test";
import type { Rule } from "../../lib/lint/rule.ts";
import { rules } from "../../lib/lint/rules/index.ts";
import { check } from "./checking.ts";
import { examples } from "./examples/index.ts";

/** `file:line rule message` of every problem in one of the examples of a rule. */
const run = ({ id, online }: Rule, which: "good" | "bad") => check(examples[id]?.[which] ?? {}, online);

const words = (problems: ReturnType<typeof run>) =>
  problems.map(({ file, line, rule, message }) => `${file}:${line} ${rule} ${message}`);

describe("the rules", () => {
  test("have unique ids, and examples in tests/lint/examples", () => {
    const ids = rules.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.filter(id => !/^[a-z]+(?:-[a-z]+)*$/.test(id))).toEqual([]);
    expect(Object.keys(examples).sort()).toEqual(ids.sort());
  });

  // Only the command connects; see tests/cmd/validate.test.ts.
  const offline = rules.filter(({ id }) => id !== "connection-check");

  test.each(offline.map(rule => [rule.id, rule] as const))(
    "%s: the bad example breaks it, at a position",
    (id, rule) => {
      const problems = run(rule, "bad");
      const found = problems.find(problem => problem.rule === id);
      expect(found ? [] : words(problems)).toEqual([]);
      expect(found).toMatchObject({ severity: rule.severity });
      expect(found?.line).toBeGreaterThan(0);
      expect(found?.column).toBeGreaterThan(0);
    },
  );

  test.each(rules.map(rule => [rule.id, rule] as const))("%s: the good example has no problem", (_id, rule) => {
    expect(words(run(rule, "good"))).toEqual([]);
  });
});
