import { expect, test } from "bun:test";
import { spawnSync } from "node:child_process";

const logging = new URL("../../cmd/serve/logging.ts", import.meta.url).pathname;

/** A process that logs as the daemon does and then does this. */
function run(source: string) {
  const head = `import { catchDefects, openLog } from ${JSON.stringify(logging)};
    const { log, flush, errors } = openLog({ logLevel: "info", logFormat: "json" });
    catchDefects(log, flush);`;
  const { status, stderr } = spawnSync(process.execPath, ["-e", head + source], { encoding: "utf8", timeout: 60_000 });
  const lines = stderr.split("\n").filter(line => line !== "");
  return { status, lines: lines.map(line => JSON.parse(line) as Record<string, string>) };
}

test("a rejection in background work is logged with its stack, counted and survived", () => {
  const { status, lines } = run(`
    void Promise.reject(new TypeError("no such thing"));
    void Promise.reject("a text");
    setTimeout(() => { log.info("still here", { errors: errors() }); flush(); process.exit(0); }, 50);`);
  expect(status).toBe(0);
  expect(lines.map(({ level, message }) => `${level} ${message}`)).toEqual([
    "error background work failed",
    "error background work failed",
    "info still here",
  ]);
  expect(lines[0]?.["reason"]).toMatch(/TypeError: no such thing[\s\S]*at /);
  expect(lines[2]?.["errors"] as unknown).toBe(2);
});

test("an exception that nothing catches is logged with its stack and ends the process", () => {
  const { status, lines } = run(`
    setTimeout(() => { throw new TypeError("half done"); }, 1);
    setTimeout(() => { log.info("still here"); flush(); }, 10_000);`);
  expect(status).toBe(1);
  expect(lines.map(({ level, message }) => `${level} ${message}`)).toEqual(["error stopped by an unexpected failure"]);
  expect(lines[0]?.["reason"]).toContain("half done");
});
