import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { type Mount, parseMountinfo } from "../../core/mountinfo.ts";
import { type BackgroundProcess, CommandError, type CommandRunner } from "../../io/runner.ts";
import { refuseMountsBelow } from "./mounted.ts";
import type { OperationContext } from "./operation-context.ts";

/**
 * What a mount must have so that nothing in it leads out of it: the kernel follows no symbolic link on the way to a file, and opens
 * no device (mount(8), "nosymfollow", "nodev"). The others are there because a copy needs neither set-user-ID bits nor programs.
 */
const seals = ["nosymfollow", "nodev", "nosuid", "noexec"] as const;

/** A tree, and a runner whose programs cannot be led out of it. */
export interface SealedTree {
  /** The path of the tree, without links. */
  readonly source: string;
  readonly runner: CommandRunner;
}

/**
 * The folder that is mounted onto itself to seal `source`: the base folder, because only within one mount can older kernels share
 * blocks of files (ioctl_ficlone(2), Linux before 5.18); the source, when that is not of the base folder's own mount. Paths hold no links.
 */
export function sealPoint(mounts: readonly Mount[], base: string, source: string): string {
  const below = (path: string, folder: string) => path.startsWith(`${folder}/`);
  const between = mounts.some(({ at }) => below(at, base) && (at === source || below(source, at)));
  return below(source, base) && !between ? base : source;
}

/** Whether what is seen at `point` is a mount that leads nowhere else. */
export function isSealed(mounts: readonly Mount[], point: string): boolean {
  const here = mounts.filter(({ at }) => at === point);
  const top = here.filter(({ id }) => !here.some(({ parent }) => parent === id));
  return top.length === 1 && top.every(({ options }) => seals.every(seal => options.includes(seal)));
}

const cannot = ({ connection }: OperationContext, why: string, cause?: unknown): CsiError =>
  new CsiError(
    "failed-precondition",
    `connection "${connection}": csimux does not copy a tree unless it can keep what a pod does meanwhile from leading the copy elsewhere: ${why}`,
    { cause },
  );

const rights = "let csimux mount (CAP_SYS_ADMIN; in Kubernetes a privileged container)";

/** Runs programs that see the mounts of a process. nsenter(1) hands its environment on, so secrets in it stand in no command line. */
function entered(local: CommandRunner, { pid }: BackgroundProcess): CommandRunner {
  return {
    where: local.where,
    async run(command, signal) {
      const argv = ["nsenter", `--mount=/proc/${pid}/ns/mnt`, "--", ...command.argv] as const;
      const output = await local.run({ ...command, argv }, signal);
      // nsenter(1), "EXIT STATUS" of util-linux: 127 when there is no such program.
      if (output.exitCode !== 127 || !output.stderr.startsWith("nsenter: failed to execute")) return output;
      throw new CommandError(local.where, command.argv[0], "missing", "there is no such program");
    },
  };
}

async function newMounts(space: OperationContext, call: Call): Promise<BackgroundProcess> {
  if (!space.runner.hold) throw cannot(space, "it cannot make mounts where its tools run");
  try {
    // The mounts are gone with the last process that sees them: none is left behind, whatever ends when.
    const argv = ["unshare", "--mount", "--propagation", "private", "--", "cat"] as const;
    return await space.runner.hold(argv, call.signal);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    if (error.failure === "missing") throw cannot(space, "unshare is not installed; install util-linux", error);
    if (error.failure === "denied") throw cannot(space, `it may not make mounts; ${rights}`, error);
    throw error;
  }
}

const mountsSeenBy = async ({ files }: OperationContext, pid: number | "self") =>
  parseMountinfo((await files.readText(`/proc/${pid}/mountinfo`)) ?? "");

/** Throws unless `held` has mounts of its own: each copy of a mount has a new number. What is mounted for it would be there for all. */
async function refuseSharedMounts(space: OperationContext, held: BackgroundProcess): Promise<void> {
  const [own, shared] = [await mountsSeenBy(space, held.pid), await mountsSeenBy(space, "self")];
  const numbers = new Set(shared.map(({ id }) => id));
  if (own.length > 0 && !own.some(({ id }) => numbers.has(id))) return;
  throw cannot(space, "unshare gives no mounts of its own; install that of util-linux");
}

/** Mounts `point` onto itself, sealed, for the processes that see the mounts of `held`; proves it. */
async function seal(
  space: OperationContext,
  runner: CommandRunner,
  held: BackgroundProcess,
  point: string,
  call: Call,
): Promise<void> {
  const argv = ["mount", "--bind", "-o", seals.join(","), "--", point, point] as const;
  const { exitCode, stderr } = await runner.run({ argv }, call.signal);
  if (exitCode !== 0) throw cannot(space, `mount ended with ${exitCode}; ${rights}`, new Error(stderr));
  // An old kernel or mount program drops an option that it does not know without a word.
  if (isSealed(await mountsSeenBy(space, held.pid), point)) return;
  throw cannot(
    space,
    "kernel or mount program do not know the option nosymfollow; use Linux 5.10 and util-linux 2.38 or newer",
  );
}

/** Runs `work` with programs that see `point` sealed. Its path holds no links. */
async function withSeal<T>(
  space: OperationContext,
  point: string,
  call: Call,
  work: (runner: CommandRunner) => Promise<T>,
): Promise<T> {
  const held = await newMounts(space, call);
  try {
    await refuseSharedMounts(space, held);
    const runner = entered(space.runner, held);
    await seal(space, runner, held, point, call);
    return await work(runner);
  } finally {
    await held.release();
  }
}

/**
 * Runs `work` on the tree at `folder`, which others may change at any moment: nothing that they do leads the programs of `work` to
 * what a link points to, nor to a device. A path that a link has got into ends with ELOOP. Throws "failed-precondition" where that is
 * not to be had, and when something is mounted in the tree, because it would be left out.
 */
export async function sealed<T>(
  space: OperationContext,
  folder: string,
  call: Call,
  work: (tree: SealedTree) => Promise<T>,
): Promise<T> {
  const { files, layout } = space;
  const [base, source] = [await files.realPath(layout.base), await files.realPath(folder)];
  const mountinfo = (await files.readText("/proc/self/mountinfo")) ?? "";
  refuseMountsBelow(space, source, mountinfo);
  const point = sealPoint(parseMountinfo(mountinfo), base, source);
  return withSeal(space, point, call, runner => work({ source, runner }));
}

/** Throws "failed-precondition" where `sealed` would. */
export async function checkSeal(space: OperationContext, call: Call): Promise<void> {
  await withSeal(space, await space.files.realPath(space.layout.base), call, async () => undefined);
}
