import type { Log } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { isLocalName } from "../../core/local-filesystems.ts";
import type { Mount } from "../../core/mountinfo.ts";
import { commandFailure } from "../../io/commands.ts";
import { type Argv, type Command, CommandError, type CommandRunner, type Output } from "../../io/runner.ts";
import { mountHealth } from "../health/mount-health.ts";
import type { MountTable } from "./mount-table.ts";

/** More mounts than this on one mount point are not of our making. */
const maxLayers = 16;

/** How long umount(8) may take for what a server holds, in milliseconds: taking away is quick, writing back may never end. */
const serverMs = 10_000;

/** Undoes mounts with umount(8), and believes nothing but the kernel's mount table. */
export class Unmounter {
  readonly #runner: CommandRunner;
  readonly #table: () => Promise<MountTable>;

  /** `table` reads the mounts of now. */
  constructor(runner: CommandRunner, table: () => Promise<MountTable>) {
    this.#runner = runner;
    this.#table = table;
  }

  /**
   * Removes every mount of a mount point. The table says whether it worked: umount(8) answers "busy" and "not mounted" with
   * one exit code. Throws "unavailable" while something holds the mount.
   *
   * What a server holds that does not answer any more is taken out of the way of the pods that wait to go (umount2(2),
   * MNT_DETACH): the kernel goes on writing back what is left, and no disk is cut from under it. A disk's is never.
   */
  async unmountAll(at: string, before: MountTable, signal: AbortSignal, log?: Log): Promise<void> {
    let table = before;
    for (let step = 0; table.layers(at) > 0; step++) {
      const top = table.top(at);
      if (!top) throw hidden(at, table.covering(at));
      const complaint = await this.#umount(top, signal);
      let after = await this.#table();
      if (after.layers(at) >= table.layers(at) && after.top(at) && step < maxLayers) {
        await this.#detachLazily(top, complaint, signal, log);
        after = await this.#table();
      }
      if (after.layers(at) >= table.layers(at))
        throw after.top(at) ? stillMounted(at, complaint) : hidden(at, after.covering(at));
      table = after;
    }
  }

  /** Tries, and returns what umount(8) complains about. A try that was killed may have worked all the same. */
  async #umount(mount: Mount, signal: AbortSignal): Promise<string> {
    const { at } = mount;
    if (isLocalName(mount.fsType)) return complaintOf(await this.#run(["umount", "-n", "-c", at], at, signal));
    // -i: no helper, which would tell the server and wait for it.
    const command: Command = { argv: ["umount", "-n", "-c", "-i", at], timeoutMs: serverMs };
    const output = await this.#runner.run(command, signal).catch((error: unknown) => {
      if (error instanceof CommandError && error.failure === "timeout") return undefined;
      throw commandFailure(error, `unmounting ${at}`);
    });
    return output ? complaintOf(output) : "umount did not come back";
  }

  /** Throws "unavailable" where the mount must stay. */
  async #detachLazily(mount: Mount, complaint: string, signal: AbortSignal, log: Log | undefined): Promise<void> {
    const { at } = mount;
    if ((await mountHealth(mount, this.#runner, signal)) === "fine") throw stillMounted(at, complaint);
    log?.warn("a mount whose server does not answer was detached although it is in use", { at, source: mount.source });
    await this.#run(["umount", "-n", "-c", "-i", "-l", at], at, signal);
  }

  async #run(argv: Argv, at: string, signal: AbortSignal): Promise<Output> {
    try {
      return await this.#runner.run({ argv }, signal);
    } catch (error) {
      throw commandFailure(error, `unmounting ${at}`);
    }
  }
}

/** What mount(8) or umount(8) complains about: its last line that is not the hint to look into dmesg. */
export const complaintOf = ({ stderr }: Output): string =>
  (
    stderr
      .split("\n")
      .filter(line => line.trim() !== "" && !line.includes("dmesg"))
      .at(-1) ?? ""
  )
    .trim()
    .slice(0, 300);

const stillMounted = (at: string, complaint: string): CsiError =>
  new CsiError("unavailable", `${at} is still mounted: ${complaint || "umount changed nothing"}; end what uses it`);

/** umount(8) cannot reach a mount below another one, and what it says then ("not mounted") misleads. */
const hidden = (at: string, cover: Mount | undefined): CsiError =>
  new CsiError("unavailable", `${at} is still mounted, but hidden by the mount at ${cover?.at}; unmount that first`);
