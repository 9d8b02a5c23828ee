import { describe, expect, test } from "bun:test";
import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** What one script on a hostile host came to, in a process of its own. */
async function against(form: string): Promise<{ how: string; grownMiB: number; longestMs: number }> {
  const argv = [`${import.meta.dir}/hostile-client.ts`, form];
  const { stdout } = await promisify(execFile)(process.execPath, argv, { timeout: 55_000 });
  return JSON.parse(stdout);
}

const endless = "the login shell prints endlessly or out of order";
const forms = [
  ["greeting: marker without end", endless],
  ["greeting: endless noise", endless],
  ["greeting: endless stderr", endless],
  ["greeting: endless markers", endless],
  ["stdout: marker without end", "lost"],
  ["stderr: marker without end", "lost"],
  ["endless markers", "lost"],
  ["endless markers on stderr", "lost"],
  ["endless stdout", "overflow"],
  ["endless stderr", "overflow"],
] as const;

describe("a storage host that writes endlessly costs little memory and delays nothing else", () => {
  for (const [form, how] of forms)
    test(form, async () => {
      const ended = await against(form);
      expect(ended.how).toBe(how);
      expect(ended.grownMiB).toBeLessThan(256);
      expect(ended.longestMs).toBeLessThan(1000);
    });

  const nonsense = [
    "rows: without cells",
    "rows: of another dataset",
    "rows: again and again",
    "rows: a line without end",
  ];
  for (const form of [...nonsense, "names: again and again", "names: of another dataset"])
    test(`${form}: zfs is ended at the first line that it cannot have written`, async () => {
      const ended = await against(form);
      expect(ended.how).toBe("nonsense");
      expect(ended.grownMiB).toBeLessThan(64);
      expect(ended.longestMs).toBeLessThan(200);
    });

  for (const form of ["noise while nothing runs", "noise after the end"])
    test(`${form} ends the login: it would be the output of the next script`, async () => {
      // Noise that comes together with the greeting ends the login before the first script.
      expect((await against(form)).how).toMatch(/^(?:lost|overflow|exit 0, dead|the login shell prints endlessly .*)$/);
    });
});
