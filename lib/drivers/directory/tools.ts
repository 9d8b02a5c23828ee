import type { Call } from "../../core/call.ts";
import type { CsiError } from "../../core/errors.ts";
import { type Argv, type CommandRunner, ignoreMissing, notFoundExit, type Output } from "../../io/runner.ts";
import { toolFailure } from "../file-failures.ts";
import { errorOn, type OperationContext } from "./operation-context.ts";
import { checkSeal, type SealedTree, sealed } from "./sealed.ts";
import { whileAnswering } from "./while-answering.ts";

/** The time limit of a tool for one tree, in milliseconds. If the server is gone, whileAnswering() ends it earlier. */
const treeMs = 24 * 60 * 60_000;

/** Runs a tool whose duration depends on the size of a tree; undefined if it is not installed. */
const run = (runner: CommandRunner, argv: Argv, call: Call): Promise<Output | undefined> =>
  runner.run({ argv, timeoutMs: treeMs }, call.signal).catch(ignoreMissing);

/** The errors of a cp, rm or sync that lacks the options of GNU. */
const unknownOption = /^[a-z]+: (unrecognized|unrecognised|invalid|illegal|unknown) option/m;

const missing = (context: OperationContext, what: string): CsiError =>
  errorOn(context, "failed-precondition", `${what}; install it where csimux runs`);

const noCopyTool = "neither GNU cp nor rsync is installed";
const absent = (tool: string) => `GNU ${tool} (coreutils) is not installed`;

/** GNU cp names each file that it could not reach; files of a volume in use may vanish while it copies. */
const vanished = /^cp: cannot (?:stat|access|open|read symbolic link) .*: No such file or directory$/;

/** Whether all errors of cp are about files that vanished below `source`. A runner marks truncated output, so a gap counts as another error. */
export function onlyVanished(stderr: string, source: string): boolean {
  const lines = stderr.split("\n").filter(line => line !== "");
  const below = (line: string) => line.includes(` '${source}/`) || line.includes(` "${source}/`);
  return lines.length > 0 && lines.every(line => vanished.test(line) && below(line));
}

/** Runs a program and appends a line to its errors, which proves that none is missing. */
const endedText = '"$@"; code=$?; echo "end of words" >&2; exit "$code"';
const lastLine = "end of words\n";

/** Whether GNU cp copied everything that still existed. */
const isCopied = ({ exitCode, stderr }: Output, source: string): boolean =>
  exitCode === 0 || (exitCode === 1 && stderr.endsWith(lastLine) && onlyVanished(wordsIn(stderr), source));

const wordsIn = (stderr: string): string => stderr.replace(/end of words\n$/, "");

/**
 * Copies a tree with all its metadata into the existing folder `target`, shares blocks if the file system can, and puts the copy
 * on stable storage. Omits files that vanish meanwhile; no change of the source can lead the copy out of it. Throws
 * "failed-precondition" without GNU cp and rsync or without the permission to mount, "aborted" if a change of the source looks
 * like an error to the tools, "resource-exhausted" on a full disk, "deadline-exceeded" at the end of the call.
 */
export async function copyTree(context: OperationContext, source: string, target: string, call: Call): Promise<void> {
  await whileAnswering(context, call, attended =>
    sealed(context, source, attended, tree => copySealed(context, tree, target, attended)),
  );
  await copied(context, target, call);
}

/** Puts a new tree on stable storage. Throws like copyTree. */
export async function copied(context: OperationContext, target: string, call: Call): Promise<void> {
  const flushed = await whileAnswering(context, call, attended =>
    run(context.runner, ["sync", "-f", "--", target], attended),
  );
  if (flushed === undefined) throw missing(context, absent("sync"));
  if (flushed.exitCode !== 0) throw toolFailure(context.connection, "put the copy on disk", "sync", flushed);
}

async function copySealed(context: OperationContext, { source, runner }: SealedTree, target: string, call: Call) {
  // -a alone drops an attribute that does not fit on a full disk and exits with 0 (cp(1), "--preserve"). Servers may refuse some.
  const attributes = context.local ? ["--preserve=xattr"] : [];
  const cp: Argv = ["cp", "-a", ...attributes, "--reflink=auto", "--sparse=auto", "-T", "--", source, target];
  const output = await run(runner, ["sh", "-c", endedText, "sh", ...cp], call);
  if (output === undefined || output.exitCode === notFoundExit || unknownOption.test(output.stderr)) {
    await copyWithRsync(context, { source, runner }, target, call);
  } else if (!isCopied(output, source))
    throw toolFailure(context.connection, "copy", "cp", { ...output, stderr: wordsIn(output.stderr) });
}

async function copyWithRsync(context: OperationContext, { source, runner }: SealedTree, target: string, call: Call) {
  const argv: Argv = ["rsync", "-aHAX", "--sparse", "--numeric-ids", "--", `${source}/`, `${target}/`];
  const output = await run(runner, argv, call);
  if (output === undefined) throw missing(context, noCopyTool);
  // 24: some source files vanished before they could be transferred (rsync(1), "EXIT VALUES").
  if (output.exitCode === 0 || output.exitCode === 24) return;
  throw toolFailure(context.connection, "copy", "rsync", output);
}

const removals = 4;

/** The machines whose rm is GNU's. */
const withGnuRm = new WeakSet<CommandRunner>();

/**
 * Throws "failed-precondition" for an rm that takes `--one-file-system` and removes on other file systems nevertheless, as that of uutils before
 * 0.10 (src/uu/rm/src/rm.rs). One without `--version` does not take it.
 */
async function requireGnuRm(context: OperationContext, call: Call): Promise<void> {
  if (withGnuRm.has(context.runner)) return;
  const output = await run(context.runner, ["rm", "--version"], call);
  if (output?.exitCode !== 0) return;
  if (!output.stdout.startsWith("rm (GNU coreutils) ")) throw missing(context, absent("rm"));
  withGnuRm.add(context.runner);
}

/**
 * Removes a tree and everything in it, but nothing that is mounted there. GNU rm walks by open folders and follows no link, whatever
 * is exchanged meanwhile (fts(3), openat(2) with O_NOFOLLOW). Tried a few times, because a pod may still use it, and a copy whose
 * csimux was killed may still be writing into it. Throws "aborted" when it keeps coming back.
 */
export async function removeTree(context: OperationContext, path: string, call: Call): Promise<void> {
  await requireGnuRm(context, call);
  for (let attempt = 1; attempt <= removals; attempt++) {
    const argv: Argv = ["rm", "-rf", "--one-file-system", "--", path];
    const output = await whileAnswering(context, call, attended => run(context.runner, argv, attended));
    if (output === undefined || unknownOption.test(output.stderr)) throw missing(context, absent("rm"));
    if (output.exitCode === 0) return;
    const failed = toolFailure(context.connection, `remove ${path}`, "rm", output);
    if (failed.code !== "aborted") throw failed;
  }
  throw errorOn(context, "aborted", `${path} is still being changed; retrying`);
}

/** How long a successful check counts for all connections of a machine, in milliseconds: one round of checks, not the next. */
const checkedForMs = 30_000;
const checkedAt = new WeakMap<CommandRunner, number>();

/**
 * Throws "failed-precondition" if a tool to copy, flush or remove trees is missing or not GNU's, or if csimux may not make the
 * mounts that keep a copy inside its source.
 */
export async function checkTools(context: OperationContext, call: Call): Promise<void> {
  const last = checkedAt.get(context.runner);
  if (last !== undefined && performance.now() - last < checkedForMs) return;
  const found = async (name: string): Promise<boolean> =>
    (await context.runner.run({ argv: [name, "--version"] }, call.signal).catch(ignoreMissing))?.exitCode === 0;
  if (!(await found("cp")) && !(await found("rsync"))) throw missing(context, noCopyTool);
  for (const name of ["rm", "sync"]) if (!(await found(name))) throw missing(context, absent(name));
  await requireGnuRm(context, call);
  await checkSeal(context, call);
  checkedAt.set(context.runner, performance.now());
}
