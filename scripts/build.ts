import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { messageOf } from "../lib/core/errors.ts";
import { below } from "./check/below.ts";
import { root, spawned, tool } from "./spawned.ts";
import { train } from "./training.ts";

/** The executable that `make build` makes. */
export const executable = `${root}/dist/csimux`;

/** Version of package.json and commit of the checkout, as they are baked into the executable. */
async function identity(): Promise<{ readonly version: string; readonly commit: string }> {
  const { version } = JSON.parse(await readFile(`${root}/package.json`, "utf8")) as { version: string };
  const head = await spawned(["git", "rev-parse", "--short=12", "HEAD"]);
  return { version, commit: head.code === 0 ? head.stdout.trim() : "unknown" };
}

/** The names that cmd/ reads, as `bun build --define` takes them. */
export async function defines(): Promise<readonly string[]> {
  const { version, commit } = await identity();
  return [
    "--define",
    `CSIMUX_VERSION=${JSON.stringify(version)}`,
    "--define",
    `CSIMUX_COMMIT=${JSON.stringify(commit)}`,
  ];
}

const sourceFiles = (folder: string): readonly string[] =>
  below(`${root}/${folder}`, "files only").map(name => `${root}/${folder}/${name}`);

/** Changes whenever the executable could: every source, the packages, this script, version and commit. */
async function fingerprint(): Promise<string> {
  const files = [
    ...sourceFiles("cmd"),
    ...sourceFiles("lib"),
    // csimux takeover starts from these manifests.
    ...(await sourceFiles("examples/kubernetes")),
    `${root}/package-lock.json`,
    `${root}/scripts/build.ts`,
  ].sort();
  const hash = createHash("sha256").update((await defines()).join("\0"));
  for (const file of files) hash.update(`\0${file.slice(root.length)}\0`).update(await readFile(file));
  return hash.digest("hex");
}

/**
 * The compiler's argv without entry and output. Bytecode halves the start, so it is not a matter of taste. Without the last
 * two, the executable would obey the .env and the bunfig.toml of whatever folder it is started in: variables, and code to run.
 */
const compile = [
  ...["build", "--compile", "--minify", "--bytecode", "--sourcemap"],
  ...["--no-compile-autoload-dotenv", "--no-compile-autoload-bunfig"],
] as const;

/** Compiles `entry` of the checkout, in the folder of `outfile`: bun leaves a file of its own in the current one when it is killed. */
export async function compileTo(outfile: string, entry: string, ...more: readonly string[]): Promise<string> {
  const argv = [...compile, ...more, ...(await defines()), `${root}/${entry}`, "--outfile", outfile] as const;
  const result = await spawned([tool("bun"), ...argv], { cwd: dirname(outfile) });
  if (result.code !== 0) throw new Error(`bun build failed:\n${result.stdout}${result.stderr}`);
  return outfile;
}

const program = "cmd/csimux.ts";

/** Compiles twice: the second time in the order in which a run of the first needed the code. */
async function compileTrained(folder: string): Promise<string> {
  const first = await compileTo(`${folder}/first`, program);
  try {
    await train(first, `${folder}/order`);
    return await compileTo(`${folder}/second`, program, `--bytecode-order=${folder}/order`);
  } catch (error) {
    console.error(`no trained build: ${messageOf(error)}`);
    return first;
  }
}

const alive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

/** Removes what builds left that were killed; each is as large as the executable. */
async function removeAbandoned(): Promise<void> {
  const names = await readdir(`${root}/dist`).catch(() => []);
  for (const name of names) {
    const pid = /^\.build-(\d+)$/.exec(name)?.[1];
    if (pid !== undefined && !alive(Number(pid))) await rm(`${root}/dist/${name}`, { recursive: true, force: true });
  }
}

async function buildOnce(): Promise<string> {
  const stamp = `${root}/dist/.fingerprint`;
  const wanted = await fingerprint();
  const current = await readFile(stamp, "utf8").catch(() => "");
  if (current === wanted && existsSync(executable)) return executable;
  await removeAbandoned();
  const folder = `${root}/dist/.build-${process.pid}`;
  await mkdir(folder, { recursive: true });
  try {
    await rename(await compileTrained(folder), executable);
    await writeFile(stamp, wanted);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return executable;
}

let built: Promise<string> | undefined;

/**
 * Makes dist/csimux unless it is current, and answers its path. The file is replaced in one step, so that a running build never leaves
 * half an executable behind. A process that has built it once uses it to its end.
 */
export function build(): Promise<string> {
  built ??= buildOnce();
  built.catch(() => {
    built = undefined;
  });
  return built;
}

if (import.meta.main) {
  const { version, commit } = await identity();
  console.log(`${await build()} (${version}, ${commit})`);
}
