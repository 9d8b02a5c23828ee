import { describe, expect, test } from "bun:test";
import { rules } from "../../lib/lint/rules/index.ts";
import { connections } from "./cases/connections.ts";
import { deployment, good, secret } from "./cases/good.ts";
import { connectionEdits, deploymentEdits, type Edit, secretEdits } from "./cases/wrong.ts";
import { check, seen } from "./checking.ts";
import type { Example } from "./examples/files.ts";

describe("good files", () => {
  test.each([...good])("%s passes without a finding", (_name, files) => {
    expect(seen(check(files))).toBe("");
  });
});

const edited = (files: Example, [file, from, to]: Edit): Example => {
  const text = files[file];
  if (text === undefined || !text.includes(from)) throw new Error(`${file} does not hold ${from}`);
  return { ...files, [file]: text.replace(from, () => to) };
};

interface Case {
  readonly title: string;
  readonly rule: string;
  readonly files: Example;
}

const cases: readonly Case[] = [
  ...connectionEdits.map(([driver, from, to, rule]) => {
    const file = `${driver}.yaml`;
    return {
      title: title(file, from, to),
      rule,
      files: edited({ [file]: connections[driver] ?? "" }, [file, from, to, rule]),
    };
  }),
  ...deploymentEdits.map(edit => ({
    title: title(edit[0], edit[1], edit[2]),
    rule: edit[3],
    files: edited(deployment, edit),
  })),
  ...secretEdits.map(edit => ({
    title: title(edit[0], edit[1], edit[2]),
    rule: edit[3],
    files: edited({ "secret.yaml": secret }, edit),
  })),
];

function title(file: string, from: string, to: string): string {
  return `${file}: ${JSON.stringify(from)} → ${JSON.stringify(to)}`;
}

describe("wrong files, each a minimal edit of a good one", () => {
  test.each(cases.map(each => [each.title, each] as const))("%s", (_title, { rule, files }) => {
    const problems = check(files);
    const named = problems.map(problem => problem.rule);
    if (rule === "none") expect(named).toEqual([]);
    else expect(named).toContain(rule);
    const lines = new Map(Object.entries(files).map(([file, text]) => [file, text.split("\n").length]));
    for (const { file, line, column, message } of problems) {
      expect(line).toBeGreaterThanOrEqual(1);
      expect(line).toBeLessThanOrEqual(lines.get(file) ?? 0);
      expect(column).toBeGreaterThanOrEqual(1);
      expect(message).not.toBe("");
    }
  });

  test("secrets are never printed", () => {
    for (const { files } of cases) expect(seen(check(files))).not.toMatch(/correct horse|1-abcdef|12345/);
  });
});

test("every rule that is found has a description", () => {
  const known = new Set(rules.map(({ id }) => id));
  const found = cases.flatMap(({ files }) => check(files).map(({ rule }) => rule));
  expect([...new Set(found)].filter(rule => !known.has(rule))).toEqual([]);
});
