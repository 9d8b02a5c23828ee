import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CsiError } from "../../lib/core/errors.ts";
import { readSmallFile } from "../../lib/io/small-file.ts";
import type { RuleConfig, RuleSource } from "../../lib/topology/config.ts";
import { type Evaluation, evaluate } from "../../lib/topology/evaluate.ts";
import type { NodeFacts } from "../../lib/topology/facts.ts";
import { compileRules, compileTopology } from "../../lib/topology/rules.ts";

const nodeName: RuleSource = { kind: "nodeName" };

const rule = (given: Partial<RuleConfig> = {}): RuleConfig => ({
  key: "zone",
  source: nodeName,
  pattern: "(.*)",
  template: "{match:0}",
  fallback: undefined,
  ...given,
});

const facts = (given: Partial<NodeFacts> = {}): NodeFacts => ({
  nodeName: "w1",
  hostname: "box",
  env: () => undefined,
  file: async () => undefined,
  label: async () => undefined,
  ...given,
});

const outcome = async (rules: readonly RuleConfig[], given?: Partial<NodeFacts>): Promise<Evaluation> =>
  evaluate(compileTopology({ kind: "rules", prefix: "t.example", rules }), facts(given));

const zoneOf = async (rules: readonly RuleConfig[], given?: Partial<NodeFacts>): Promise<string> => {
  const { segments, failure } = await outcome(rules, given);
  if (failure) throw failure;
  return segments["t.example/zone"] ?? "";
};

/** Generous: the work takes milliseconds, a machine under load takes longer. */
const boundMs = 2_000;

async function inBound<T>(work: () => Promise<T>): Promise<T> {
  const start = performance.now();
  const result = await work();
  expect(performance.now() - start).toBeLessThan(boundMs);
  return result;
}

describe("patterns of users", () => {
  test("longer input is refused with its length, not matched", async () => {
    const { failure } = await outcome([rule({ pattern: "(a+)" })], { nodeName: "a".repeat(1_000_000) });
    expect(failure?.message).toContain("1000000 characters");
    expect(failure?.message.length).toBeLessThan(300);
  });

  test.each([
    ["([", "Invalid regular expression"],
    [`a${"b".repeat(1024)}`, "1024"],
    ["(a)\\z", "Invalid regular expression"],
    ["(?P<zone>a)", "Invalid regular expression"],
  ])("%p is refused when the configuration is compiled", (pattern, word) => {
    const { problems } = compileRules([rule({ pattern })]);
    expect(problems).toMatchObject([{ rule: 0, field: "pattern", message: expect.stringContaining(word) }]);
  });

  test.each(["a\\-(b)", "[a\\-x]-(b)", "a\\x2d(b)", "(?<x>a)?a?-(b)"])(
    "%s matches a name with a hyphen",
    async pattern => {
      const template = pattern.includes("<x>") ? "{match:2}" : "{match:1}";
      expect(await zoneOf([rule({ pattern, template })], { nodeName: "a-b" })).toBe("b");
    },
  );

  test("all wrong rules are listed at once, each by its number and field", () => {
    const rules = [rule({ pattern: "([" }), rule(), rule({ pattern: "a(.*)", template: "{match:2}" })];
    const { problems } = compileRules(rules);
    expect(problems.map(({ rule, field }) => [rule, field])).toEqual([
      [0, "pattern"],
      [2, "template"],
    ]);
    expect(() => compileTopology({ kind: "rules", prefix: "t.example", rules })).toThrow(/rule 1 .*rule 3 /s);
  });
});

describe("templates", () => {
  test.each([
    ["z{match:1}", "za"],
    ["z${match:1}", "za"],
    ["{match:2}x{match:1}", "bxa"],
    ["{match:0}", "a-b"],
    ["$1{match:1}", undefined],
    ["{match:3}z", "z"],
  ])("%s gives %p", async (template, want) => {
    const result = zoneOf([rule({ pattern: "(a)-(b)(c)?", template })], { nodeName: "a-b" });
    if (want === undefined) await expect(result).rejects.toThrow("is not a valid topology value");
    else expect(await result).toBe(want);
  });

  test("placeholders in the input are not filled in", async () => {
    const result = zoneOf([rule({ pattern: "(.*)", template: "{match:1}" })], { nodeName: "{match:0}" });
    await expect(result).rejects.toThrow("is not a valid topology value");
  });
});

describe("missing inputs", () => {
  const label: RuleSource = { kind: "nodeLabel", name: "example.com/zone" };
  const env: RuleSource = { kind: "env", name: "ZONE" };

  test("a missing node label stops the registration, because it may be set later", async () => {
    const other = rule({ key: "rack", template: "r1" });
    const { failure, segments } = await outcome([other, rule({ source: label })]);
    expect(failure?.code).toBe("failed-precondition");
    expect(failure?.message).toContain("example.com/zone");
    expect(segments).toEqual({});
  });

  test("a missing node label does not matter if another rule or a default gives the key", async () => {
    expect(await zoneOf([rule({ source: label, fallback: "none" })])).toBe("none");
    expect(await zoneOf([rule({ template: "rest" }), rule({ source: label })])).toBe("rest");
  });

  test("an API that does not answer stops the registration even with a default", async () => {
    const unreachable = async () => {
      throw new CsiError("unavailable", "the API is away");
    };
    const { failure } = await outcome([rule({ source: label, fallback: "none" })], { label: unreachable });
    expect(failure?.code).toBe("unavailable");
  });

  test("a default is used only if no rule of its key matched, whatever their order", async () => {
    const absent = rule({ source: env, fallback: "none" });
    expect(await zoneOf([absent, rule({ template: "found" })])).toBe("found");
    expect(await zoneOf([rule({ template: "found" }), absent])).toBe("found");
    expect(await zoneOf([absent])).toBe("none");
  });

  test("a variable that the Downward API leaves empty counts as missing if there is a default", async () => {
    expect(await zoneOf([rule({ source: env, fallback: "none" })], { env: () => "" })).toBe("none");
    await expect(zoneOf([rule({ source: env })], { env: () => "" })).rejects.toThrow("is not a valid topology value");
  });

  test("a node without a name cannot be its own topology", async () => {
    const { failure } = await evaluate({ kind: "node", prefix: "t.example" }, facts({ nodeName: undefined }));
    expect(failure?.message).toContain("CSI_NODE_ID");
  });

  test("a name that is too long for a label is refused with its length", async () => {
    const { failure } = await evaluate({ kind: "node", prefix: "t.example" }, facts({ nodeName: "a".repeat(64) }));
    expect(failure?.message).toContain("64 characters");
  });
});

describe("files as input", () => {
  let folder = "";
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "csimux-rules-"));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const fromFile = (path: string) =>
    outcome([rule({ source: { kind: "file", name: path } })], { file: name => readSmallFile(name, 64 * 1024) });

  test("10 MB are refused in bounded time", async () => {
    const path = join(folder, "large");
    writeFileSync(path, Buffer.alloc(10_000_000, "a"));
    const { failure } = await inBound(() => fromFile(path));
    expect(failure?.code).toBe("failed-precondition");
    expect(failure?.message).toContain(`${path} is larger than 65536 bytes`);
  });

  test("a file full of spaces is trimmed in bounded time", async () => {
    const path = join(folder, "blanks");
    writeFileSync(path, `z1${" ".repeat(60_000)}x`);
    const { failure } = await inBound(() => fromFile(path));
    expect(failure?.message).toContain("60003 characters");
    writeFileSync(path, `z1${" \t\r\n".repeat(15_000)}`);
    expect((await inBound(() => fromFile(path))).segments).toEqual({ "t.example/zone": "z1" });
  });

  test("a pipe, a device and a folder are refused without being read", async () => {
    const pipe = join(folder, "pipe");
    execFileSync("mkfifo", [pipe]);
    for (const path of [pipe, "/dev/zero", "/proc/self", "/", folder]) {
      const { failure } = await inBound(() => fromFile(path));
      expect(failure?.message).toContain("is not a regular file");
    }
  });

  test("a terminal, and bytes that are not text, are refused, and only a part of them is quoted", async () => {
    const path = join(folder, "binary");
    writeFileSync(path, Buffer.alloc(10_000, 0xff));
    for (const each of [path, "/dev/tty"]) {
      const { failure } = await inBound(() => fromFile(each));
      expect([each, failure?.code]).toEqual([each, "failed-precondition"]);
      expect(failure?.message.length).toBeLessThan(500);
    }
  });

  test("a rule with a missing file is skipped", async () => {
    const { outcomes } = await fromFile(join(folder, "absent"));
    expect(outcomes[0]).toMatchObject({ applied: false, input: undefined });
  });
});
