import { readdir } from "node:fs/promises";
import { checkDriverNames } from "./driver-names.ts";
import { checkDrivers } from "./drivers.ts";
import { checkImports } from "./imports.ts";
import { checkLockFile } from "./lockfile.ts";
import { root, spawned, tool } from "./spawned.ts";

/** One thing that `make check` looks at. It answers what is wrong, one line each. */
interface Check {
  readonly title: string;
  run(): Promise<readonly string[]>;
}

/** A program whose exit code is the verdict and whose output is the explanation. */
const program = (title: string, argv: readonly [string, ...string[]]): Check => ({
  title,
  async run() {
    const { code, stdout, stderr } = await spawned(argv);
    return code === 0 ? [] : [`${stdout}${stderr}`.trim() || `exit code ${code}`];
  },
});

const imports: Check = {
  title: "imports point one way",
  async run() {
    const { files, violations } = await checkImports();
    return files === 0 ? ["dependency-cruiser read no TypeScript file"] : violations;
  },
};

/** Scripts that make committed files answer `--check` with a failure when those files are stale. */
async function generators(): Promise<readonly Check[]> {
  const names = (await readdir(`${root}/scripts`)).filter(name =>
    /^(generate|schemas|reference)[a-z-]*\.ts$/.test(name),
  );
  return names.sort().map(name => program(`scripts/${name} --check`, [tool("bun"), `scripts/${name}`, "--check"]));
}

async function checks(): Promise<readonly Check[]> {
  return [
    program("types (tsc 7)", ["node", "node_modules/@typescript/native/bin/tsc", "-p", "."]),
    program("format and lint (biome)", [tool("biome"), "check", "--error-on-warnings", "--max-diagnostics=40", "."]),
    imports,
    ...(await generators()),
    { title: "the lock file is complete", run: checkLockFile },
    { title: "a driver's name stands in its module alone", run: checkDriverNames },
    { title: "every driver has an example, and each store and share its contract test", run: () => checkDrivers() },
  ];
}

async function holds(check: Check): Promise<boolean> {
  const problems = await check
    .run()
    .catch((error: unknown) => [error instanceof Error ? error.message : String(error)]);
  console.log(`${problems.length === 0 ? "ok  " : "FAIL"} ${check.title}`);
  for (const problem of problems) console.log(`     ${problem.replaceAll("\n", "\n     ")}`);
  return problems.length === 0;
}

const all = await checks();
let good = 0;
for (const check of all) if (await holds(check)) good++;
console.log(`${good} of ${all.length} checks hold`);
process.exitCode = good === all.length ? 0 : 1;
