import { build } from "../build.ts";
import { countSkipped } from "../bun-test.ts";
import { buildGoPrograms } from "../cluster/tools.ts";
import { installMissing, missingPackages, onPath } from "../packages.ts";
import { installSanity } from "../sanity/program.ts";
import { sanityVariants } from "../sanity.ts";
import { root, spawned, tool } from "../spawned.ts";
import { nothing, plus, type Tally } from "../tally.ts";
import { filesWithout, programsOf, testPackages } from "../test-programs.ts";
import { type Imports, reached } from "./imports.ts";
import type { Job } from "./job.ts";
import { partJob } from "./part.ts";
import type { Selection } from "./selection.ts";
import { type Seconds, unitJobs } from "./unit.ts";

/** The jobs of a run, and the tests that were skipped because the machine lacks something. */
export interface Work {
  readonly jobs: readonly Job[];
  readonly skipped: Tally;
}

/** Installs the programs that these files call, or says which are missing. Returns the files that cannot run without them. */
async function programs(files: readonly string[]): Promise<readonly string[]> {
  const wanted = programsOf(files);
  const packages = Object.fromEntries(Object.entries(testPackages).filter(([program]) => wanted.includes(program)));
  await installMissing(packages);
  const missing = wanted.filter(program => !onPath(program));
  if (missing.length > 0)
    console.log(
      `Missing programs, so the tests that need them are skipped: ${missing.join(", ")}. On Debian: apt-get install ${missingPackages(packages).join(" ")}`,
    );
  return filesWithout(onPath).filter(file => files.includes(file));
}

async function unitWork(files: readonly string[], imports: Imports, seconds: Seconds, cases?: string): Promise<Work> {
  const without = await programs(files);
  const present = files.filter(file => !without.includes(file));
  const needs = new Set(present.flatMap(file => [...reached(imports, file)]));
  if (needs.has("scripts/cluster/tools.ts")) await buildGoPrograms();
  if (needs.has("scripts/build.ts")) await build();
  const skipped = without.length > 0 && cases === undefined ? await countSkipped(without) : nothing;
  return { jobs: unitJobs(present, seconds, cases), skipped };
}

/** The runs of csi-sanity; without Go to build it, they are skipped, except in CI, which must have it. */
async function sanityWork(seconds: Seconds): Promise<Work> {
  const variants = sanityVariants(process.env["CSIMUX_FUZZ"] === "all" ? "all" : "usual");
  await build();
  if ((await installSanity()) !== undefined) {
    const script = `${root}/scripts/sanity.ts`;
    const jobs = variants.map(name => {
      const title = `csi-sanity: ${name}`;
      return partJob(title, seconds[title] ?? 15, [tool("bun"), script, name]);
    });
    return { jobs, skipped: nothing };
  }
  console.log("csi-sanity DID NOT RUN: building it requires Go (https://go.dev)");
  return {
    jobs: [],
    skipped: process.env["CI"] ? { ...nothing, failed: 1 } : { ...nothing, skipped: variants.length },
  };
}

const portableWork = (seconds: Seconds): Work => {
  const title = "the sources under Node and Deno";
  return {
    jobs: [partJob(title, seconds[title] ?? 15, [tool("bun"), `${root}/scripts/portable.ts`])],
    skipped: nothing,
  };
};

/** Installs and builds what the selected tests need, and returns them as jobs. */
export async function prepare(
  { parts, files }: Selection,
  { imports, seconds, cases }: { readonly imports: Imports; readonly seconds: Seconds; readonly cases?: string },
): Promise<Work> {
  const works = [
    ...(parts.includes("unit") ? [await unitWork(files, imports, seconds, cases)] : []),
    ...(parts.includes("sanity") ? [await sanityWork(seconds)] : []),
    ...(parts.includes("portable") ? [portableWork(seconds)] : []),
  ];
  return { jobs: works.flatMap(({ jobs }) => jobs), skipped: works.map(work => work.skipped).reduce(plus, nothing) };
}

/** The seed of all samples: CSIMUX_SEED, or a number that follows the commit, so that other samples run after each one. */
export async function seedOfCommit(): Promise<number> {
  const given = Number(process.env["CSIMUX_SEED"]);
  if (Number.isInteger(given) && given > 0) return given;
  const { code, stdout } = await spawned(["git", "rev-parse", "--short=7", "HEAD"]);
  return code === 0 ? Number.parseInt(stdout.trim().slice(0, 7), 16) : 1;
}
