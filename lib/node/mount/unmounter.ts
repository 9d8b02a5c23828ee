import { readdir, readFile } from "node:fs/promises";
import type { Log } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { isLocalName, type Mount } from "../../core/mountinfo.ts";
import {
  type Argv,
  type Command,
  CommandError,
  type CommandRunner,
  commandFailure,
  complaint,
  type Output,
  run,
} from "../../io/runner.ts";
import { statMs } from "./files.ts";
import { isWithin, type MountTable } from "./mount-table.ts";

/** The largest number of mounts at one mount point that csimux can have made. */
const maxLayers = 16;

/** Time limit of umount(8) for a server's mount, in milliseconds: writing back may never end. */
const serverMs = 10_000;

/** Undoes mounts with umount(8), and verifies the result in the kernel's mount table. */
export class Unmounter {
  readonly #runner: CommandRunner;
  readonly #table: () => Promise<MountTable>;

  /** `table` reads the current mounts. */
  constructor(runner: CommandRunner, table: () => Promise<MountTable>) {
    this.#runner = runner;
    this.#table = table;
  }

  /**
   * Removes every mount at a mount point. The mount table decides about success: umount(8) uses one exit code for
   * "busy" and "not mounted". Throws "unavailable" while the mount is in use.
   *
   * Detaches the mount of a server that no longer answers lazily (umount2(2), MNT_DETACH) to let its pods end: the
   * kernel continues to write back, and no disk is removed under it. Never does so for the mount of a disk.
   */
  async unmountAll(at: string, before: MountTable, signal: AbortSignal, log?: Log): Promise<void> {
    let table = before;
    for (let step = 0; table.layers(at) > 0; step++) {
      const top = table.top(at);
      if (!top) throw hidden(at, table.covering(at));
      const why = await this.#umount(top, signal);
      let after = await this.#table();
      if (after.layers(at) >= table.layers(at) && after.top(at) && step < maxLayers) {
        await this.#detachLazily(top, why, signal, log);
        after = await this.#table();
      }
      if (after.layers(at) >= table.layers(at))
        throw after.top(at) ? await stillMounted(at, why, after) : hidden(at, after.covering(at));
      table = after;
    }
  }

  /** Runs umount(8) and returns its error output. A killed umount may have succeeded. */
  async #umount(mount: Mount, signal: AbortSignal): Promise<string> {
    const { at } = mount;
    if (isLocalName(mount.fsType)) return complaint(await this.#run(["umount", "-n", "-c", at], at, signal));
    // -i: without the helper, which would contact the server and wait for it.
    const command: Command = { argv: ["umount", "-n", "-c", "-i", at], timeoutMs: serverMs };
    const output = await this.#runner.run(command, signal).catch((error: unknown) => {
      if (error instanceof CommandError && error.failure === "timeout") return undefined;
      throw commandFailure(error, `unmounting ${at}`);
    });
    return output ? complaint(output) : "umount did not finish in time";
  }

  /** Detaches a mount whose server is silent. Throws "unavailable" if the server answers. */
  async #detachLazily(mount: Mount, why: string, signal: AbortSignal, log: Log | undefined): Promise<void> {
    const { at } = mount;
    if ((await mountHealth(mount, this.#runner, signal)) === "fine")
      throw await stillMounted(at, why, await this.#table());
    log?.warn("lazily detached a mount in use, because its server does not answer", { at, source: mount.source });
    await this.#run(["umount", "-n", "-c", "-i", "-l", at], at, signal);
  }

  #run(argv: Argv, at: string, signal: AbortSignal): Promise<Output> {
    return run(this.#runner, { argv }, `unmounting ${at}`, signal);
  }
}

/** Names what keeps a mount busy: a mount below it, a loop device on one of its files (Documentation/ABI, sysfs-block-loop), or processes. */
async function stillMounted(at: string, why: string, table: MountTable): Promise<CsiError> {
  const below = table.points().find(point => point !== at && isWithin(at, point));
  let remedy = below ? `unmount ${below}, which is mounted below it` : "end the processes that use it";
  for (const name of await readdir("/sys/block").catch(() => [])) {
    const file = await readFile(`/sys/block/${name}/loop/backing_file`, "utf8").catch(() => "");
    if (isWithin(at, file)) remedy = `detach the loop device /dev/${name} from its file ${file.trim()}`;
  }
  return new CsiError("unavailable", `${at} is still mounted: ${why || "umount changed nothing"}; ${remedy}`);
}

/** The error for a hidden mount: umount(8) cannot reach it, and its message ("not mounted") misleads. */
const hidden = (at: string, cover: Mount | undefined): CsiError =>
  new CsiError("unavailable", `${at} is still mounted, but hidden by the mount at ${cover?.at}; unmount that first`);

/** The state of a mount: it answers, its server no longer knows it, or its server does not answer. */
export type MountHealth = "fine" | "stale" | "silent";

/** Error output of stat(1) (strerror(3), locale C); any other, such as EAGAIN of a new SMB mount, proves nothing. */
const meanings: readonly (readonly [RegExp, MountHealth])[] = [
  [/Stale file handle|Transport endpoint is not connected/, "stale"],
  [/Host is down|No route to host|timed out/, "silent"],
];

/** Checks a server's mount in a program that can be killed. Throws "unavailable" when the call ends first. */
export async function mountHealth(mount: Mount, runner: CommandRunner, signal: AbortSignal): Promise<MountHealth> {
  if (isLocalName(mount.fsType)) return "fine";
  try {
    const command: Command = { argv: ["stat", "-f", "-c", "%T", mount.at], timeoutMs: statMs };
    const { exitCode, stderr } = await runner.run(command, signal);
    return exitCode === 0 ? "fine" : (meanings.find(([words]) => words.test(stderr))?.[1] ?? "fine");
  } catch (error) {
    if (error instanceof CommandError && error.failure === "timeout") return "silent";
    throw commandFailure(error, `checking ${mount.at}`);
  }
}
