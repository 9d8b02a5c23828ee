import type { Call } from "../../core/call.ts";
import type { CsiError } from "../../core/errors.ts";
import { type Mount, parseMountinfo } from "../../core/mountinfo.ts";
import { type BackgroundProcess, CommandError, type CommandRunner, notFoundExit } from "../../io/runner.ts";
import { refuseMountsBelow } from "./mounted.ts";
import { errorOn, type OperationContext } from "./operation-context.ts";

/**
 * Mount options that keep programs inside a mount: the kernel follows no symbolic link and opens no device (mount(8),
 * "nosymfollow", "nodev"). A copy needs neither set-user-ID bits nor programs.
 */
const seals = ["nosymfollow", "nodev", "nosuid", "noexec"] as const;

/** A tree, and a runner whose programs cannot leave it. */
export interface SealedTree {
  /** The path of the tree, without links. */
  readonly source: string;
  readonly runner: CommandRunner;
}

/**
 * The folder to mount onto itself to seal `source`: the base folder, because older kernels share blocks of files only within
 * one mount (ioctl_ficlone(2), Linux before 5.18); `source` if it is not on the base folder's own mount. Paths without links.
 */
export function sealPoint(mounts: readonly Mount[], base: string, source: string): string {
  const below = (path: string, folder: string) => path.startsWith(`${folder}/`);
  const between = mounts.some(({ at }) => below(at, base) && (at === source || below(source, at)));
  return below(source, base) && !between ? base : source;
}

/** Whether the top mount at `point` has all these options. */
export function isSealed(mounts: readonly Mount[], point: string): boolean {
  const here = mounts.filter(({ at }) => at === point);
  const top = here.filter(({ id }) => !here.some(({ parent }) => parent === id));
  return top.length === 1 && top.every(({ options }) => seals.every(seal => options.includes(seal)));
}

const cannot = (context: OperationContext, why: string, cause?: unknown): CsiError =>
  errorOn(context, "failed-precondition", `cannot copy a tree safely while pods may change it: ${why}`, { cause });

const rights = "let csimux mount (CAP_SYS_ADMIN; in Kubernetes a privileged container)";

/** Runs programs in the mount namespace of a process. nsenter(1) passes the environment on, so no command line contains its secrets. */
function entered(local: CommandRunner, { pid }: BackgroundProcess): CommandRunner {
  return {
    where: local.where,
    async run(command, signal) {
      const argv = ["nsenter", `--mount=/proc/${pid}/ns/mnt`, "--", ...command.argv] as const;
      const output = await local.run({ ...command, argv }, signal);
      if (output.exitCode !== notFoundExit || !output.stderr.startsWith("nsenter: failed to execute")) return output;
      throw new CommandError(local.where, command.argv[0], "missing", "there is no such program");
    },
  };
}

async function newMounts(context: OperationContext, call: Call): Promise<BackgroundProcess> {
  if (!context.runner.hold) throw cannot(context, "mounts cannot be made where the tools run");
  try {
    // The mounts vanish with the last process in their namespace, however it ends.
    const argv = ["unshare", "--mount", "--propagation", "private", "--", "cat"] as const;
    return await context.runner.hold(argv, call.signal);
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    if (error.failure === "missing") throw cannot(context, "unshare is not installed; install util-linux", error);
    if (error.failure === "denied") throw cannot(context, `csimux may not mount; ${rights}`, error);
    throw error;
  }
}

const mountsSeenBy = async ({ files }: OperationContext, pid: number | "self") =>
  parseMountinfo((await files.readText(`/proc/${pid}/mountinfo`)) ?? "");

/** Throws unless `held` has its own mount namespace, in which each mount has a new id; otherwise its mounts would be visible to all. */
async function refuseSharedMounts(context: OperationContext, held: BackgroundProcess): Promise<void> {
  const [own, shared] = [await mountsSeenBy(context, held.pid), await mountsSeenBy(context, "self")];
  const numbers = new Set(shared.map(({ id }) => id));
  if (own.length > 0 && !own.some(({ id }) => numbers.has(id))) return;
  throw cannot(context, "unshare did not create a mount namespace; install the one of util-linux");
}

/** Mounts `point` onto itself, sealed, in the mount namespace of `held`, and verifies it. */
async function seal(
  context: OperationContext,
  runner: CommandRunner,
  held: BackgroundProcess,
  point: string,
  call: Call,
): Promise<void> {
  const argv = ["mount", "--bind", "-o", seals.join(","), "--", point, point] as const;
  const { exitCode, stderr } = await runner.run({ argv }, call.signal);
  if (exitCode !== 0) throw cannot(context, `mount ended with ${exitCode}; ${rights}`, new Error(stderr));
  // Old kernels and mount programs ignore unknown options silently.
  if (isSealed(await mountsSeenBy(context, held.pid), point)) return;
  throw cannot(
    context,
    "the kernel or mount program does not support the option nosymfollow; use Linux 5.10 and util-linux 2.38 or newer",
  );
}

/**
 * Runs `work` with programs for which `point`, a path without links, is sealed. Throws "unavailable" if that fails because the
 * process that keeps the mounts was killed: the mounts are gone then, which looks as if the kernel had never made them.
 */
async function withSeal<T>(
  context: OperationContext,
  point: string,
  call: Call,
  work: (runner: CommandRunner) => Promise<T>,
): Promise<T> {
  const held = await newMounts(context, call);
  try {
    await refuseSharedMounts(context, held);
    const runner = entered(context.runner, held);
    await seal(context, runner, held, point, call);
    return await work(runner);
  } catch (error) {
    if (await held.answers()) throw error;
    const text = "the process that keeps the mounts for a copy was killed; repeat the request";
    throw errorOn(context, "unavailable", text, { cause: error });
  } finally {
    await held.release();
  }
}

/**
 * Runs `work` on the tree at `folder`, which others may change at any time: nothing they do leads the programs of `work` to the
 * target of a link or to a device; a path with a link fails with ELOOP. Throws "failed-precondition" if that cannot be ensured,
 * and if something is mounted in the tree, because it would be omitted.
 */
export async function sealed<T>(
  context: OperationContext,
  folder: string,
  call: Call,
  work: (tree: SealedTree) => Promise<T>,
): Promise<T> {
  const { files, layout } = context;
  const [base, source] = [await files.realPath(layout.base), await files.realPath(folder)];
  const mountinfo = (await files.readText("/proc/self/mountinfo")) ?? "";
  refuseMountsBelow(context, source, mountinfo);
  const point = sealPoint(parseMountinfo(mountinfo), base, source);
  return withSeal(context, point, call, runner => work({ source, runner }));
}

/** Throws "failed-precondition" if `sealed` would. */
export async function checkSeal(context: OperationContext, call: Call): Promise<void> {
  await withSeal(context, await context.files.realPath(context.layout.base), call, async () => undefined);
}
