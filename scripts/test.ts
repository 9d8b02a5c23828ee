import { chmod, mkdir, mkdtemp, readFile, rm, statfs, writeFile } from "node:fs/promises";
import { availableParallelism, freemem, tmpdir } from "node:os";
import { join } from "node:path";
import { messageOf } from "../lib/core/errors.ts";
import { widenPath } from "./packages.ts";
import { root, spawned, tool } from "./spawned.ts";
import { plus, tallyLine } from "./tally.ts";
import { hasCode, type Imports, readImports } from "./test/imports.ts";
import { prepare, seedOfCommit } from "./test/prepare.ts";
import { lastScreen, repeat, runJobs } from "./test/run.ts";
import { affected, changedSince, type Selection, select, testFiles } from "./test/selection.ts";
import { type Seconds, unhurried } from "./test/unit.ts";

/** The path of a Unix socket has at most 107 bytes (unix(7)), of which the tests need 45 below the folder of a job. */
const temporary = (): string => (Buffer.byteLength(tmpdir()) > 56 ? "/tmp" : tmpdir());

const inMemory = "/dev/shm";

/** A tmpfs in which programs may run: tests write some (proc_pid_mounts(5)). */
const usable = /^\S+ \/dev\/shm tmpfs (?!\S*noexec)/m;

/** The room that tests may need. */
const room = 4 * 1024 ** 3;

/** A new folder in memory if there is enough. Not with TMPDIR, and not where everything is tested: then all is on the disk, as in production. */
async function folderInMemory(): Promise<string | undefined> {
  if (process.env["TMPDIR"] || process.env["CSIMUX_FUZZ"] === "all") return undefined;
  if (!usable.test(await readFile("/proc/self/mounts", "utf8"))) return undefined;
  const { bavail, bsize } = await statfs(inMemory);
  if (Math.min(bavail * bsize, freemem()) < room) return undefined;
  // Not "csimux-": csimux itself makes folders with such names in /dev/shm, for which tests look.
  const folder = await mkdtemp(join(inMemory, "test-csimux-"));
  await chmod(folder, 0o711);
  return folder;
}

/** Many tests wait for something. Each process of bun may need a gibibyte. JOBS=1: one at a time. */
const workersHere = (): number =>
  Number(process.env["JOBS"]) || Math.max(1, Math.min(2 * availableParallelism(), Math.floor(freemem() / 1024 ** 3)));

/** How long everything took in the last run on this machine, and on another one where it never ran. */
const recorded = `${root}/.cache/test-seconds.json`;
const elsewhere = `${root}/scripts/test/seconds.json`;

const readSeconds = async (path: string): Promise<Seconds> =>
  JSON.parse(await readFile(path, "utf8").catch(() => "{}"));

async function record(seconds: Seconds): Promise<void> {
  const all = { ...(await readSeconds(recorded)), ...unhurried(seconds, await readSeconds(elsewhere)) };
  const rounded = Object.entries(all).map(([name, each]) => [name, Math.round(each * 10) / 10] as const);
  await mkdir(`${root}/.cache`, { recursive: true });
  await writeFile(recorded, JSON.stringify(Object.fromEntries(rounded.sort()), undefined, 1));
}

/** The most seconds of tests that a change selects by itself. */
const most = 120;

/**
 * "changed" stands for the files that import what differs from the commit SINCE, or HEAD, as many as can run in two minutes; with "far",
 * for all of them. `unreached`: the changed code that no test imports, or all that changed if nothing is left to run.
 */
async function selected(words: readonly string[], imports: Imports, seconds: Seconds) {
  const all = testFiles();
  if (!words.includes("changed")) return { ...select(words, all), unreached: [] };
  const limit = words.includes("far") ? Number.POSITIVE_INFINITY : most;
  const changed = await changedSince(process.env["SINCE"] || "HEAD");
  const { files, left, unreached } = affected(changed, { all, imports, seconds, most: limit });
  if (left.length > 0) console.log(`Left out (ONLY="changed far" runs them, too): ${left.join(", ")}`);
  const code = unreached.filter(file => /^(?:lib|cmd|scripts|tests)\//.test(file) && hasCode(file));
  const others = unreached.filter(file => !code.includes(file));
  if (others.length > 0) console.log(`Not considered, because tests read them by their paths: ${others.join(", ")}`);
  const rest = words.filter(word => word !== "changed" && word !== "far");
  const more = rest.length === 0 ? { parts: [], files: [] } : select(rest, all);
  const both = [...new Set([...files, ...more.files])].sort();
  return { parts: ["unit" as const, ...more.parts], files: both, unreached: both.length > 0 ? code : unreached };
}

async function main(words: readonly string[]): Promise<number> {
  const imports = readImports();
  const seconds = { ...(await readSeconds(elsewhere)), ...(await readSeconds(recorded)) };
  const { unreached, ...selection } = await selected(words, imports, seconds);
  const isEmpty = selection.files.length === 0 && selection.parts.every(part => part === "unit");
  const code = isEmpty ? 0 : await run(selection, imports, seconds);
  if (unreached.length > 0) console.error(`No test imports what has changed: ${unreached.join(", ")}`);
  return unreached.length > 0 ? 1 : code;
}

async function run(selection: Selection, imports: Imports, seconds: Seconds): Promise<number> {
  const seed = await seedOfCommit();
  process.env["CSIMUX_SEED"] = String(seed);
  const cases = process.env["CASES"] || undefined;
  const { jobs, skipped } = await prepare(selection, { imports, seconds, ...(cases !== undefined && { cases }) });
  const workers = workersHere();
  console.log(`${jobs.length} jobs, ${workers} at a time; seed ${seed} (CSIMUX_SEED)`);
  const interrupted = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, () => interrupted.abort());
  const folder = await mkdtemp(join(temporary(), "csimux-test-"));
  // Some tests run as an ordinary user, who must be able to enter but not list it.
  await chmod(folder, 0o711);
  const memory = await folderInMemory();
  try {
    const options = { folder, memory, workers, signal: interrupted.signal };
    const result = await runJobs(jobs, options);
    if (cases === undefined && !interrupted.signal.aborted) await record(result.seconds);
    const failures = result.failures;
    if (failures.length > 0)
      console.log(`\nwhat failed:\n${lastScreen(failures, await repeat(failures, options), seed)}`);
    const sum = plus(result.tally, skipped);
    console.log(`${interrupted.signal.aborted ? "\ninterrupted" : ""}\n${tallyLine(sum)}`);
    return sum.failed > 0 || sum.passed === 0 || interrupted.signal.aborted ? 1 : 0;
  } finally {
    for (const each of [folder, memory]) if (each !== undefined) await rm(each, { recursive: true, force: true });
  }
}

/** Mounting requires root. Without it, the tests run in a user and mount namespace. */
async function asRoot(words: readonly string[]): Promise<number> {
  if (process.getuid?.() === 0) return main(words);
  const namespace = ["unshare", "--user", "--map-root-user", "--mount"] as const;
  if ((await spawned([...namespace, "true"])).code !== 0) {
    console.error("Not root, and user namespaces are not allowed: tests that mount will fail. Try: sudo make test");
    return main(words);
  }
  console.log("Not root: the tests run in a user namespace, and those that need root of the machine are skipped.");
  const again = [...namespace, tool("bun"), import.meta.path, ...words] as const;
  return (await spawned(again, { show: true, timeoutMs: 5_400_000 })).code;
}

widenPath();
try {
  process.exitCode = await asRoot(process.argv.slice(2).flatMap(words => words.split(/\s+/).filter(Boolean)));
} catch (error) {
  console.error(messageOf(error));
  process.exitCode = 2;
}
