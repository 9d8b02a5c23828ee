import { mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { unmountBelow } from "../sandbox.ts";
import { tool } from "../spawned.ts";
import { reached, readImports } from "../test/imports.ts";
import { killMarked, marked } from "../test/marked.ts";
import { testFiles } from "../test/selection.ts";

/** What a file of tests executes of lib and cmd, and how long it takes. */
export interface TestRun {
  readonly test: string;
  readonly ms: number;
  /** How often each line of a source runs, by the number of the line. */
  readonly hits: ReadonlyMap<string, readonly number[]>;
}

/** Reads what "bun test --coverage-reporter=lcov" writes (geninfo(1), TRACEFILE FORMAT). */
function hitsOf(lcov: string): TestRun["hits"] {
  const hits = new Map<string, number[]>();
  for (const part of lcov.split("end_of_record")) {
    const file = /^SF:((?:lib|cmd)\/.*)$/m.exec(part)?.[1];
    const lines: number[] = [];
    for (const [, line, count] of part.matchAll(/^DA:(\d+),(\d+)$/gm)) lines[Number(line)] = Number(count);
    if (file && lines.some(count => count > 0)) hits.set(file, lines);
  }
  return hits;
}

const executed = (lines: readonly number[] = []): number => lines.filter(count => count > 0).length;

/** Whether a line runs; one that is not listed belongs to the last one before it that is. */
const runs = (lines: readonly number[], line: number): boolean =>
  (lines.findLast((count, at) => at <= line && count !== undefined) ?? 0) > 0;

/** The tests that execute a line of a file, those first that take little time for anything else. */
export function testsOf(all: readonly TestRun[], file: string, line: number): readonly string[] {
  const cost = ({ ms, hits }: TestRun): number => {
    const total = [...hits.values()].reduce((sum, lines) => sum + executed(lines), 0);
    return (ms * total) / executed(hits.get(file));
  };
  return all
    .filter(({ hits }) => runs(hits.get(file) ?? [], line))
    .map(each => ({ test: each.test, cost: cost(each) }))
    .sort((a, b) => a.cost - b.cost)
    .map(({ test }) => test);
}

/** Runs each file of tests once without a change. Tests of the executable, and those that fail, are left out. */
export async function testRuns(folder: string): Promise<readonly TestRun[]> {
  const imports = readImports();
  const all: TestRun[] = [];
  for (const test of testFiles()) {
    const far = reached(imports, test);
    if (far.has("scripts/build.ts") || far.has("scripts/cluster/tools.ts")) continue;
    const coverage = join(folder, "coverage");
    const began = performance.now();
    if (await fails(folder, test, ["--coverage", "--coverage-reporter=lcov", `--coverage-dir=${coverage}`])) continue;
    const ms = performance.now() - began;
    // There is no file if the test imports nothing.
    const lcov = await readFile(join(coverage, "lcov.info"), "utf8").catch(() => "");
    all.push({ test, ms, hits: hitsOf(lcov) });
    await rm(coverage, { recursive: true, force: true });
  }
  return all;
}

/** Whether a file of tests fails in the copy, or does not end. */
export async function fails(folder: string, file: string, options: readonly string[] = []): Promise<boolean> {
  const temporary = join(folder, "t");
  await mkdir(temporary, { mode: 0o711 });
  const where = { cwd: join(folder, "copy"), env: { ...process.env, TMPDIR: temporary }, timeout: 150_000 };
  const argv = marked(process.pid, [tool("bun"), "test", "--bail=1", "--timeout=30000", ...options, `./${file}`]);
  const code = await Bun.spawn([...argv], { ...where, stderr: "ignore", stdout: "ignore" }).exited;
  killMarked(process.pid);
  await unmountBelow(temporary);
  await rm(temporary, { recursive: true, force: true });
  return code !== 0;
}
