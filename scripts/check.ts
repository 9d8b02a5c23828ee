import { messageOf } from "../lib/core/errors.ts";
import { checkConventions } from "./check/conventions.ts";
import { checkDriverNames } from "./check/driver-names.ts";
import { checkDrivers } from "./check/drivers.ts";
import { checkExports } from "./check/exports.ts";
import { checkImports } from "./check/imports.ts";
import { checkLockFile } from "./check/lockfile.ts";
import { checkSleeps } from "./check/sleeps.ts";
import { checkWeight } from "./check/weight.ts";
import { staleFiles } from "./generate.ts";
import { spawned, tool } from "./spawned.ts";

/** One check of `make check`: returns the problems, one line each. */
interface Check {
  readonly title: string;
  run(): Promise<readonly string[]>;
}

/** A check by a program that fails with a nonzero exit code and prints why. `remedy` follows its output. */
const program = (title: string, argv: readonly [string, ...string[]], remedy = ""): Check => ({
  title,
  async run() {
    const { code, stdout, stderr } = await spawned(argv);
    return code === 0 ? [] : [`${stdout}${stderr}`.trim() || `exit code ${code}`, ...(remedy ? [remedy] : [])];
  },
});

const imports: Check = {
  title: "imports point one way (scripts/check/import-rules.ts)",
  async run() {
    const { files, violations } = await checkImports();
    return files === 0 ? ["dependency-cruiser read no TypeScript file"] : violations;
  },
};

const checks: readonly Check[] = [
  program("types (tsc 7)", ["node", "node_modules/@typescript/native/bin/tsc", "-p", "."]),
  program(
    "format and lint (biome)",
    [tool("biome"), "check", "--error-on-warnings", "--max-diagnostics=40", "."],
    'to fix the format and what can be fixed safely, run "node_modules/.bin/biome check --write ."',
  ),
  imports,
  { title: "generated files match their sources (scripts/generate.ts)", run: staleFiles },
  { title: "the lock file is complete", run: checkLockFile },
  {
    title: "folders, files, phrases and type names follow the conventions (scripts/check/conventions.ts)",
    run: checkConventions,
  },
  { title: "each export is what another file imports", run: checkExports },
  { title: "no test sleeps (conventions in tests/waiting.ts)", run: checkSleeps },
  { title: "product, tests and scripts weigh no more than scripts/check/weight.json allows", run: checkWeight },
  { title: "only a driver's module names the driver", run: checkDriverNames },
  { title: "every driver is listed and has an example, and each store and share its contract test", run: checkDrivers },
];

const problemsOf = (check: Check): Promise<readonly string[]> =>
  check.run().catch((error: unknown) => [messageOf(error)]);

function holds({ title }: Check, problems: readonly string[]): boolean {
  console.log(`${problems.length === 0 ? "ok  " : "FAIL"} ${title}`);
  for (const problem of problems) console.log(`     ${problem.replaceAll("\n", "\n     ")}`);
  return problems.length === 0;
}

const words = process.argv.slice(2);
const chosen = checks.filter(({ title }) => words.length === 0 || words.some(word => title.includes(word)));
// All at once: those that are programs of their own come first, so that they run while the others occupy this process.
const running = chosen.map(check => ({ check, problems: problemsOf(check) }));
let good = 0;
for (const { check, problems } of running) if (holds(check, await problems)) good++;
console.log(`${good} of ${chosen.length} checks hold`);
process.exitCode = chosen.length > 0 && good === chosen.length ? 0 : 1;
