import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { type Argv, CommandError, type CommandRunner, type Output } from "../../io/runner.ts";
import { inPlace } from "./attended.ts";
import { toolFailure } from "./failures.ts";
import type { OperationContext } from "./operation-context.ts";
import { checkSeal, type SealedTree, sealed } from "./sealed.ts";

/** How long a tool may work on one tree, in milliseconds. On a server that is gone it ends before, see inPlace(). */
const treeMs = 24 * 60 * 60_000;

/** Runs a tool whose time depends on the size of a tree; undefined when it is not installed. */
async function run(runner: CommandRunner, argv: Argv, call: Call): Promise<Output | undefined> {
  try {
    return await runner.run({ argv, timeoutMs: treeMs }, call.signal);
  } catch (error) {
    if (error instanceof CommandError && error.failure === "missing") return undefined;
    throw error;
  }
}

/** How cp, rm and sync of other makers refuse the options of GNU. */
const unknownOption = /^[a-z]+: (unrecognized|unrecognised|invalid|illegal|unknown) option/m;

const missing = (space: OperationContext, what: string): CsiError =>
  new CsiError("failed-precondition", `connection "${space.connection}": ${what}; install it where csimux runs`);

const noCopyTool = "neither GNU cp nor rsync is installed";
const absent = (tool: string) => `GNU ${tool} (coreutils) is not installed`;

/** GNU cp names each file that it could not reach; files of a volume in use may go while it copies. */
const vanished = /^cp: cannot (?:stat|access|open|read symbolic link) .*: No such file or directory$/;

/** Whether cp complained about nothing but files that went away below `source`. A runner marks output that it cut, so a hole fails too. */
export function onlyVanished(stderr: string, source: string): boolean {
  const lines = stderr.split("\n").filter(line => line !== "");
  const below = (line: string) => line.includes(` '${source}/`) || line.includes(` "${source}/`);
  return lines.length > 0 && lines.every(line => vanished.test(line) && below(line));
}

/** Runs a program and writes a last line behind its complaints, which proves that none of them is cut off. */
const endedText = '"$@"; code=$?; echo "end of words" >&2; exit "$code"';
const lastLine = "end of words\n";

/** The exit code of a shell that has not found the program (POSIX.1-2017, Shell 2.8.2). */
const notFound = 127;

/** Whether this exit of GNU cp means a complete copy of what still existed. */
const isCopied = ({ exitCode, stderr }: Output, source: string): boolean =>
  exitCode === 0 || (exitCode === 1 && stderr.endsWith(lastLine) && onlyVanished(wordsIn(stderr), source));

const wordsIn = (stderr: string): string => stderr.replace(/end of words\n$/, "");

/**
 * Copies a tree with everything a file system knows about it into the existing folder `target`, sharing blocks where the file
 * system can, and puts it on stable storage. Files that vanish from the source meanwhile are left out; nothing that is done in the
 * source meanwhile can lead the copy out of it.
 * Throws "failed-precondition" without GNU cp and rsync or without the right to mount, "aborted" when the source changed in a way that
 * tools take for an error, "resource-exhausted" on a full disk, "deadline-exceeded" at the end of the call.
 */
export async function copyTree(space: OperationContext, source: string, target: string, call: Call): Promise<void> {
  await inPlace(space, call, attended =>
    sealed(space, source, attended, tree => copySealed(space, tree, target, attended)),
  );
  await copied(space, target, call);
}

/** Puts a new tree on stable storage. Throws as copyTree does. */
export async function copied(space: OperationContext, target: string, call: Call): Promise<void> {
  const flushed = await inPlace(space, call, attended => run(space.runner, ["sync", "-f", "--", target], attended));
  if (flushed === undefined) throw missing(space, absent("sync"));
  if (flushed.exitCode !== 0) throw toolFailure(space.connection, "put the copy on disk", "sync", flushed);
}

async function copySealed(
  space: OperationContext,
  { source, runner }: SealedTree,
  target: string,
  call: Call,
): Promise<void> {
  // -a alone drops an attribute that does not fit on a full disk, and exits with 0 (cp(1), "--preserve"). A server may refuse some for good.
  const attributes = space.local ? ["--preserve=xattr"] : [];
  const cp: Argv = ["cp", "-a", ...attributes, "--reflink=auto", "--sparse=auto", "-T", "--", source, target];
  const output = await run(runner, ["sh", "-c", endedText, "sh", ...cp], call);
  if (output === undefined || output.exitCode === notFound || unknownOption.test(output.stderr)) {
    await copyWithRsync(space, { source, runner }, target, call);
  } else if (!isCopied(output, source))
    throw toolFailure(space.connection, "copy", "cp", { ...output, stderr: wordsIn(output.stderr) });
}

async function copyWithRsync(
  space: OperationContext,
  { source, runner }: SealedTree,
  target: string,
  call: Call,
): Promise<void> {
  const argv: Argv = ["rsync", "-aHAX", "--sparse", "--numeric-ids", "--", `${source}/`, `${target}/`];
  const output = await run(runner, argv, call);
  if (output === undefined) throw missing(space, noCopyTool);
  // 24: some source files vanished before they could be transferred (rsync(1), "EXIT VALUES").
  if (output.exitCode === 0 || output.exitCode === 24) return;
  throw toolFailure(space.connection, "copy", "rsync", output);
}

const removals = 4;

/**
 * Removes a tree and everything in it, but nothing that is mounted there. GNU rm walks by open folders and follows no link, whatever
 * is exchanged meanwhile (fts(3), openat(2) with O_NOFOLLOW). Tried a few times, because a pod may still use it, and a copy whose
 * csimux was killed may still be writing into it. Throws "aborted" when it keeps coming back.
 */
export async function removeTree(space: OperationContext, path: string, call: Call): Promise<void> {
  for (let attempt = 1; attempt <= removals; attempt++) {
    const argv: Argv = ["rm", "-rf", "--one-file-system", "--", path];
    const output = await inPlace(space, call, attended => run(space.runner, argv, attended));
    if (output === undefined || unknownOption.test(output.stderr)) throw missing(space, absent("rm"));
    if (output.exitCode === 0) return;
    const failed = toolFailure(space.connection, `remove ${path}`, "rm", output);
    if (failed.code !== "aborted") throw failed;
  }
  throw new CsiError("aborted", `connection "${space.connection}": ${path} is still being changed; repeat the call`);
}

/** How long a successful check counts for all connections of a machine, in milliseconds: one round of checks, not the next. */
const checkedForMs = 30_000;
const checkedAt = new WeakMap<CommandRunner, number>();

/**
 * Throws "failed-precondition" when a tool that copies, flushes or removes trees is not installed or not GNU's, or when csimux may not
 * make the mounts that keep a copy inside of its source.
 */
export async function checkTools(space: OperationContext, call: Call): Promise<void> {
  const last = checkedAt.get(space.runner);
  if (last !== undefined && performance.now() - last < checkedForMs) return;
  const found = async (name: string): Promise<boolean> => {
    try {
      return (await space.runner.run({ argv: [name, "--version"] }, call.signal)).exitCode === 0;
    } catch (error) {
      if (error instanceof CommandError && error.failure === "missing") return false;
      throw error;
    }
  };
  if (!(await found("cp")) && !(await found("rsync"))) throw missing(space, noCopyTool);
  for (const name of ["rm", "sync"]) if (!(await found(name))) throw missing(space, absent(name));
  await checkSeal(space, call);
  checkedAt.set(space.runner, performance.now());
}
