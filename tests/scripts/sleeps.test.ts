import { expect, test } from "bun:test";
import { sleeps } from "../../scripts/check/sleeps.ts";

const helpers = 'import { later, passing, pause } from "./waiting.ts";\n';
const found = (text: string, path = "tests/one.test.ts") => sleeps([{ path, text: helpers + text }]);

test.each([
  "await Bun.sleep(500);",
  "for (;;) await Bun.sleep(ms);",
  "Bun.sleepSync(5);",
  "await new Promise(resolve => setTimeout(resolve, 5));",
  "globalThis.setTimeout(() => {}, 5);",
  "await pause(5);",
  "for (;;) work(() => pause(5));",
  "await passing(5);",
  "later(() => {}, 5);",
])("a test does not sleep: %s", text => {
  expect(found(text)).toEqual([expect.stringMatching(/^tests\/one\.test\.ts:2: /)]);
});

test("nor by an import", () => {
  for (const module of ["node:timers/promises", "timers/promises"])
    expect(found(`import { setTimeout as wait } from "${module}";`)).toHaveLength(1);
});

test.each([
  "while (!(await look())) await pause(5);",
  "for (const end = Date.now() + 9; !done; await pause(5)) if (Date.now() > end) throw new Error();",
  "// A slow system.\nawait passing(5);",
  "later(() => {}, 5); // In the middle of the call.",
  "await Bun.sleep(0);",
  'const script = "setTimeout(end, 5)";',
  "const { setTimeout } = globalThis;",
])("this is allowed: %s", text => {
  expect(found(text)).toEqual([]);
});

test("real machines may need time", () => {
  expect(found("await Bun.sleep(500);", "tests/lab/zfs/one.lab.ts")).toEqual([]);
});
