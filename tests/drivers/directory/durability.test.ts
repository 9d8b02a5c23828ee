import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { temporaryFolder } from "./directory-rig.ts";

/** Whether processes can be traced here: strace is installed, and containers often may not. */
const canTrace = spawnSync("strace", ["-q", "-o", "/dev/null", "true"]).status === 0;

/** Paths that were synced between two answers of a trace. */
function syncedBefore(trace: string): ReadonlyMap<string, readonly string[]> {
  const answers = new Map<string, readonly string[]>();
  /** What threads wait for: a call during which another thread was traced is printed in two lines (strace(1)). */
  const waiting = new Map<string, string>();
  let synced: string[] = [];
  for (const line of trace.split("\n")) {
    const [, thread = "", path, end] = /^(\d+) +f(?:data)?sync\(\d+<([^>]+)>(.*)$/.exec(line) ?? [];
    if (path !== undefined && end?.includes("unfinished")) waiting.set(thread, path);
    else if (path !== undefined && / = 0$/.test(line)) synced.push(path);
    const [, resumed = ""] = /^(\d+) +<\.\.\. f(?:data)?sync resumed>.* = 0$/.exec(line) ?? [];
    if (waiting.has(resumed)) synced.push(waiting.get(resumed) ?? "");
    const [, answer] = /"[^"]*\/answered ([^"]+)"/.exec(line) ?? [];
    if (answer === undefined) continue;
    answers.set(answer, synced);
    synced = [];
  }
  return answers;
}

// The contract suite loses what these verbs have not synced; that they do sync is seen here, at the kernel.
test.skipIf(!canTrace)(
  "each verb that promises stable storage has asked the kernel for it when it answers",
  async () => {
    const folder = await temporaryFolder();
    try {
      const [base, trace] = [join(folder, "base"), join(folder, "trace")];
      await mkdir(base);
      const calls = "fsync,fdatasync,access,faccessat,faccessat2";
      const program = [process.execPath, join(import.meta.dir, "synced-verbs.ts"), base];
      const { status, stderr } = spawnSync("strace", [
        "-f",
        "-q",
        "-y",
        "-e",
        `trace=${calls}`,
        "-o",
        trace,
        ...program,
      ]);
      expect([status, String(stderr)]).toEqual([0, ""]);
      const answers = syncedBefore(readFileSync(trace, "utf8"));
      for (const files of ["localFiles", "sharedFiles"]) {
        for (const how of ["create", "replace", "append"])
          expect([files, how, answers.get(`${how} ${files}`)]).toEqual([files, how, [join(base, files)]]);
        expect([files, "sync", answers.get(`sync ${files}`)]).toEqual([files, "sync", [base]]);
      }
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
);
