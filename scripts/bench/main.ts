import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "../build.ts";
import { barePairs } from "./bare.ts";
import { blackHole } from "./black-hole.ts";
import { besideBare } from "./disks.ts";
import { coldStart, probes, soak } from "./probe.ts";
import { full, quick } from "./setting.ts";
import { type Figure, table } from "./table.ts";
import { truenas } from "./truenas.ts";
import { validation } from "./validate.ts";
import { manyConnections, nodeCycles, pairs } from "./volumes.ts";

/** What a container needs; the peer is its runtime with 196 packages. */
async function size(executable: string): Promise<readonly Figure[]> {
  return [{ what: "executable", value: (await stat(executable)).size / 1e6, unit: "MB", peer: 147 }];
}

/** Only scenarios with this in their title; all when absent. */
const only = process.argv[process.argv.indexOf("--only") + 1 || process.argv.length] ?? "";
const scale = process.argv.includes("--quick") ? quick : full;
const executable = await build();
const folder = await mkdtemp(join(tmpdir(), "csimux-bench-"));
const scenarios: readonly (readonly [title: string, run: () => Promise<readonly Figure[]>])[] = [
  ["cold start", () => coldStart(executable, scale)],
  ["Probe", () => probes(executable, scale)],
  ["soak", () => soak(executable, scale)],
  ["create + delete", async () => [...(await pairs(executable, scale)), ...(await barePairs(scale, folder))]],
  ["node cycle", () => nodeCycles(executable, scale, folder)],
  ["beside bare commands", () => besideBare(executable, scale, folder)],
  ["many connections", () => manyConnections(executable, scale)],
  ["one storage system of two black-holed", () => blackHole(executable, scale)],
  ["validate", () => validation(executable, scale, folder)],
  ["TrueNAS", () => truenas(executable, scale)],
  ["size", () => size(executable)],
];

const figures: Figure[] = [];
let broken = false;
try {
  for (const [title, run] of scenarios.filter(([title]) => title.includes(only))) {
    process.stderr.write(`${title} ...\n`);
    try {
      figures.push(...(await run()));
    } catch (error) {
      broken = true;
      process.stderr.write(`${title} FAILED: ${error instanceof Error ? error.message : String(error)}\n`);
    }
  }
} finally {
  await rm(folder, { recursive: true, force: true });
}
console.log(table(figures));
console.log(
  `\npeer: the unmerged proxy of democratic-csi, measured beforehand on a machine like the one that the targets were set on;
"create + delete" there leaves volumes in the page cache, while csimux answers only when they are on stable storage (fsync).
"TrueNAS" is against a double of 25.10 that takes 2 ms for each request; the peer there is the sequence of democratic-csi's
API drivers, replayed over REST on the same double.
MISSED: the figure of this run on this machine is worse than the target beside it; other programs that run count, too.`,
);
process.exitCode = broken ? 1 : 0;
