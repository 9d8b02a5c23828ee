import { describe, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { modules } from "../lib/drivers/index.ts";
import type { Input } from "../lib/lint/input.ts";
import { lint } from "../lib/lint/lint.ts";
import { patternCompiler } from "../lib/topology/pattern.ts";
import { stale } from "../scripts/committed.ts";
import { editorSchemas } from "../scripts/editor-schemas.ts";
import { keyReference } from "../scripts/key-reference.ts";
import { byDriver, exampleFiles, folder, read } from "./drivers/example-files.ts";

const compile = await patternCompiler(["."]);
const outside = { env: (name: string) => (name === "QUICKSTART" ? "/srv/q" : undefined), file: () => undefined };

const yaml = (below: string): readonly string[] =>
  readdirSync(new URL(below, folder))
    .filter(name => name.endsWith(".yaml"))
    .map(name => `${below}${name}`);

/** Of files that are to be filled in: places of secrets. */
const meant: ReadonlySet<string> = new Set(["placeholder-value"]);

/** What `csimux validate` says about these files, but for what they are meant to show. */
function problems(files: readonly string[]): readonly string[] {
  const inputs = files.map((file): Input => {
    const role = file.includes("connections/") ? "connection" : "given";
    return { file, text: readFileSync(new URL(file, folder), "utf8"), role };
  });
  return lint(inputs, { modules, outside, checkEnvironment: true, compile })
    .problems.filter(({ rule }) => !meant.has(rule))
    .map(({ file, line, rule, message }) => `${file}:${line} ${rule} ${message}`);
}

describe("examples", () => {
  test("show every driver", () => {
    expect([...byDriver].filter(([, text]) => text === "")).toEqual([]);
  });

  test.each(exampleFiles.map(({ file, text }) => ({ file, text })))("$file is a good connection file", ({ text }) => {
    expect(read(text).diagnostics.filter(({ rule }) => rule !== "placeholder-value")).toEqual([]);
  });

  test.each(exampleFiles.filter(({ file }) => !file.startsWith("quickstart/")))(
    "$file names its schema for editors in the first line",
    ({ file, driver, text }) => {
      const path = /^# yaml-language-server: \$schema=(\S+)\n/.exec(text)?.[1] ?? "";
      expect(new URL(path, new URL(file, folder)).pathname).toBe(new URL(`schemas/${driver}.json`, folder).pathname);
      expect(editorSchemas().files.has(`examples/schemas/${driver}.json`)).toBe(true);
    },
  );

  test.each([
    ["the deployment with topology", yaml("")],
    ["the deployment of local drivers", yaml("local/")],
    ["the quick start", [...yaml("quickstart/"), ...yaml("quickstart/connections/")]],
  ])("%s is right as a whole", (_, files) => {
    expect(files.length).toBeGreaterThan(2);
    expect(problems(files)).toEqual([]);
  });

  test("a broken deployment would be noticed", () => {
    const files = yaml("").filter(file => file !== "connections-secret.yaml");
    expect(problems(files).join("\n")).toContain("class-connection-missing");
  });
});

describe("generated files", () => {
  test("examples/schemas is what the schemas yield", async () => {
    expect(await stale(editorSchemas())).toEqual([]);
  });

  test("examples/reference.md is what the schemas yield", async () => {
    expect(await stale(keyReference())).toEqual([]);
  });
});
