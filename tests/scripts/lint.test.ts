import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { root, spawned, tool } from "../../scripts/spawned.ts";

let checkout = "";

/** What biome says of a text, as if it stood in that file of the checkout. */
async function lint(file: string, text: string): Promise<string> {
  await mkdir(dirname(join(checkout, file)), { recursive: true });
  await writeFile(join(checkout, file), text);
  const { stdout, stderr } = await spawned([tool("biome"), "lint", "--error-on-warnings", file], { cwd: checkout });
  return `${stdout}${stderr}`;
}

const refused: readonly (readonly [rule: string, file: string, text: string])[] = [
  ["noRestrictedGlobals", "lib/io/process.ts", "export const bad = process.pid;"],
  ["noRestrictedGlobals", "lib/io/bun.ts", "export const bad = Bun.version;"],
  ["noRestrictedGlobals", "cmd/bun.ts", "export const bad = Bun.version;"],
  ["noConsole", "lib/io/console.ts", 'console.log("bad");'],
  ["noNonNullAssertion", "lib/io/assertion.ts", "export const bad = (x?: string) => x!.length;"],
  ["noExplicitAny", "lib/io/any.ts", "export const bad = (x: any) => x;"],
  ["noDefaultExport", "cmd/default.ts", "export default 1;"],
  ["noEnum", "lib/io/enum.ts", "export enum Bad { A }"],
];

beforeAll(async () => {
  checkout = await mkdtemp(join(tmpdir(), "csimux-lint-"));
  await copyFile(join(root, "biome.json"), join(checkout, "biome.json"));
});

afterAll(() => rm(checkout, { recursive: true, force: true }));

describe("the linter", () => {
  test.each(refused)("refuses by %s in %s", async (rule, file, text) => {
    expect(await lint(file, text)).toContain(`/${rule}`);
  });

  test("lets cmd use process and console", async () => {
    const said = await lint("cmd/good.ts", "export const good = () => console.log(process.pid);\n");
    expect(said).toContain("Checked 1 file");
    expect(said).not.toContain("lint/");
  });
});
