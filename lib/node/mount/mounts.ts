import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Mount } from "../../core/mountinfo.ts";
import { commandFailure } from "../../io/commands.ts";
import type { Argv, Command, CommandRunner, Output } from "../../io/runner.ts";
import type { MountFailure, MountProgram } from "../attach/attacher.ts";
import { deviceNumber } from "../disks/block-device.ts";
import { type MountHealth, mountHealth } from "../health/mount-health.ts";
import { bindOptions, lackingFlags } from "./flags.ts";
import { type MountErrorPatterns, mountErrorAdvice, mountErrorCode } from "./mount-errors.ts";
import { ensureFolder, removeMountPoint } from "./mount-points.ts";
import { type Identity, type MountTable, readMountTable, sameFolder } from "./mount-table.ts";
import { resolveParents } from "./paths.ts";
import { complaintOf, Unmounter } from "./unmounter.ts";

/** A bind mount to be made. Paths are real ones, as realPlace gives them. */
export interface BindMount {
  readonly source: string;
  readonly at: string;
  /** From bindFlags; "ro" makes the mount read-only. */
  readonly flags: readonly string[];
  /** The number of the device that the mount must show, where it is one; as in FileSystem. */
  readonly number?: string;
}

/** A file system to be mounted at a real place. */
export interface FilesystemMount {
  readonly fsType: string;
  readonly source: string;
  /** Options of the file system. */
  readonly options: readonly string[];
  readonly at: string;
  /** As in Bind; given to the mount itself. */
  readonly flags: readonly string[];
  /** By the host's mount(8). */
  readonly onHost?: boolean;
  /** For the helper of mount(8): where secrets go. */
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly secret?: readonly string[];
  readonly errorPatterns?: MountErrorPatterns;
  readonly program?: MountProgram;
  /** As in Command. */
  readonly timeoutMs?: number;
  /** The number ("major:minor") of the device that the mount must be of; absent where it is of none. */
  readonly number?: string;
}

/** The ending of the folders in which mounts are prepared. */
const preparationSuffix = ".mount";

/** Makes and undoes mounts with mount(8) and umount(8), and believes nothing but the kernel's mount table. */
export class Mounts {
  readonly #runner: CommandRunner;
  readonly #host: CommandRunner;
  readonly #mountinfo: string;
  readonly #folder: string;
  readonly #unmounting: Unmounter;

  /**
   * `host` runs the host's programs. `mountinfo` is the path of the table, `/proc/self/mountinfo` outside tests. `folder` is
   * csimux's own, for short-lived mounts.
   */
  constructor(runner: CommandRunner, host: CommandRunner, mountinfo: string, folder: string) {
    this.#runner = runner;
    this.#host = host;
    this.#mountinfo = mountinfo;
    this.#folder = folder;
    this.#unmounting = new Unmounter(runner, () => this.table());
  }

  /** Throws "unavailable". */
  table(): Promise<MountTable> {
    return readMountTable(this.#mountinfo);
  }

  /**
   * Binds a folder to an unmounted place and verifies what is seen there. A mount that came out otherwise is undone.
   * Throws "failed-precondition" when a writable mount is impossible because the source's mount or file system is read-only.
   */
  async bind(bind: BindMount, before: MountTable, signal: AbortSignal): Promise<void> {
    const source = before.covering(bind.source);
    const inherited = source?.options ?? [];
    const isReadOnly = inherited.includes("ro") ? "mount" : source?.readOnly ? "file system" : undefined;
    if (isReadOnly && !bind.flags.includes("ro")) {
      throw new CsiError(
        "failed-precondition",
        `${bind.source} lies on a read-only ${isReadOnly}; make it writable or ask for a read-only volume`,
      );
    }
    if (bind.flags.every(flag => inherited.includes(flag))) return await this.#attach(bind, [], before, signal);
    await this.#bindProtected(bind, bindOptions(bind.flags, inherited), before, signal);
  }

  /**
   * Flags are set after a mount was made, and reach none of the copies that the kernel made of it in other mount namespaces
   * (mount_namespaces(7)): a pod gets the host's copy. So they are set where nobody looks, and that mount is bound on.
   */
  async #bindProtected(
    bind: BindMount,
    options: readonly string[],
    before: MountTable,
    signal: AbortSignal,
  ): Promise<void> {
    const at = await this.#preparationFolder(bind.at, before, signal);
    await this.#clear(at, before, signal);
    await ensureFolder(at, signal);
    try {
      await this.#attach({ ...bind, at }, options, await this.table(), signal);
      await this.#attach({ ...bind, source: at }, [], await this.table(), signal);
    } finally {
      // What stays here after a failure goes with the next bind or unmount of the same mount point.
      const clear = async () => this.#clear(at, await this.table(), signal);
      await clear().catch(() => {});
    }
  }

  /** Where a mount for this mount point is prepared. */
  #preparationFolder(at: string, table: MountTable, signal: AbortSignal): Promise<string> {
    const name = createHash("sha256").update(at).digest("hex");
    return resolveParents(join(this.#folder, `${name}${preparationSuffix}`), table, signal);
  }

  /**
   * Removes what ended processes left in preparation; to be called before anything is mounted. Returns how many mounts there
   * were. Throws "unavailable" for one that is in use.
   */
  async removePreparations(signal: AbortSignal): Promise<number> {
    const table = await this.table();
    const folder = await resolveParents(this.#folder, table, signal);
    const left = table.points().filter(at => dirname(at) === folder && at.endsWith(preparationSuffix));
    for (const at of left) await this.#clear(at, await this.table(), signal);
    return left.length;
  }

  /** An empty folder that cannot be removed harms nobody, and the disk may be read-only. */
  async #clear(workplace: string, before: MountTable, signal: AbortSignal): Promise<void> {
    await this.#unmounting.unmountAll(workplace, before, signal);
    await removeMountPoint(workplace, signal).catch(() => {});
  }

  /** Binds with these options, none for a plain copy of the source's mount. */
  async #attach(bind: BindMount, options: readonly string[], before: MountTable, signal: AbortSignal): Promise<void> {
    const task = `binding ${bind.source} to ${bind.at}`;
    const wanted = before.identity(bind.source);
    const argv: Argv = ["mount", "-n", "-o", ["bind", ...options].join(","), bind.source, bind.at];
    const output = await this.#run({ argv }, task, signal);
    const after = await this.table();
    const shown = bind.number === undefined ? undefined : await numberOf(bind.at);
    const wrong =
      mountMismatch(after.top(bind.at), wanted, bind.flags) ??
      (shown === bind.number ? undefined : `it shows the device ${shown ?? "of no number"} instead of ${bind.number}`);
    if (output.exitCode === 0 && !wrong) return;
    if (after.layers(bind.at) > before.layers(bind.at)) await this.#unmounting.unmountAll(bind.at, after, signal);
    throw mountFailed(output, task, wrong);
  }

  /**
   * Mounts a file system at an unmounted place and says what is seen there. A mount that came out otherwise is undone.
   * When mount(8) refuses, its words say which error is thrown.
   */
  async mount(wanted: FilesystemMount, before: MountTable, signal: AbortSignal): Promise<Identity> {
    const { source, at, flags, stdin, env, secret, timeoutMs, number } = wanted;
    const task = `mounting ${source} at ${at}`;
    const argv = mountArgv(wanted, [...new Set([...flags, ...wanted.options])]);
    const more = {
      ...(stdin !== undefined && { stdin }),
      ...(env && { env }),
      ...(secret && { secret }),
      ...(timeoutMs !== undefined && { timeoutMs }),
    };
    const output = await this.#run({ argv, ...more }, task, signal, wanted.onHost ? this.#host : this.#runner);
    const after = await this.table();
    const top = after.top(at);
    const wrong =
      mountMismatch(top, top ?? { device: "", root: "" }, flags) ??
      (top && number && (await deviceMismatch(top, number)));
    if (output.exitCode === 0 && top && !wrong) return { device: top.device, root: top.root };
    if (after.layers(at) > before.layers(at)) await this.#unmounting.unmountAll(at, after, signal);
    throw mountFailed(output, task, wrong, failureOf(output, wanted));
  }

  /** Gives an existing mount the flags that a crash between its making and its protection left out. */
  async protect(
    at: string,
    shows: Identity,
    flags: readonly string[],
    before: MountTable,
    signal: AbortSignal,
  ): Promise<void> {
    const task = `protecting ${at}`;
    const options = bindOptions(flags, before.top(at)?.options ?? []);
    const argv: Argv = ["mount", "-n", "-o", ["remount", "bind", ...options].join(","), at];
    const output = await this.#run({ argv }, task, signal);
    const wrong = mountMismatch((await this.table()).top(at), shows, flags);
    if (output.exitCode !== 0 || wrong) throw mountFailed(output, task, wrong);
  }

  /** As Unmounting.peel, with what was left of preparing a bind mount there. */
  async unmount(at: string, before: MountTable, call: Call): Promise<void> {
    await this.#clear(await this.#preparationFolder(at, before, call.signal), before, call.signal);
    await this.#unmounting.unmountAll(at, before, call.signal, call.log);
  }

  /** As healthOf. */
  health(mount: Mount, signal: AbortSignal): Promise<MountHealth> {
    return mountHealth(mount, this.#runner, signal);
  }

  async #run(command: Command, task: string, signal: AbortSignal, runner = this.#runner): Promise<Output> {
    try {
      return await runner.run(command, signal);
    } catch (error) {
      throw commandFailure(error, task);
    }
  }
}

/** What is wrong with a mount that should show `wanted` with these flags, or undefined when nothing is. */
export function mountMismatch(
  mount: Mount | undefined,
  wanted: Identity,
  flags: readonly string[],
): string | undefined {
  if (!mount) return "nothing is mounted there";
  if (!sameFolder(mount, wanted)) return `it shows ${mount.root} of ${mount.source} instead`;
  const lacking = lackingFlags(flags, mount.options);
  if (lacking.length > 0) return `it lacks ${lacking.join(", ")}`;
  return mount.options.includes("ro") && !flags.includes("ro") ? "it is read-only" : undefined;
}

/** File systems on several devices, such as btrfs, have a number of their own with this beginning; then their source says the device. */
const anonymous = /^0:/;

/** What is wrong with a mount that should be of the device with this number, or undefined when nothing is. */
async function deviceMismatch({ device, source }: Mount, number: string): Promise<string | undefined> {
  const shown = anonymous.test(device) ? await numberOf(source) : device;
  return shown === number ? undefined : `it shows the device ${shown ?? "of no number"} instead of ${number}`;
}

/** The number of the device behind a device file, or undefined for anything else. */
const numberOf = (path: string): Promise<string | undefined> =>
  stat(path).then(
    stats => (stats.isBlockDevice() || stats.isCharacterDevice() ? deviceNumber(stats.rdev) : undefined),
    () => undefined,
  );

const mountArgv = ({ program, fsType, source, at }: FilesystemMount, options: readonly string[]): Argv =>
  program
    ? [...program.argv(options), at]
    : ["mount", "-n", "-t", fsType, ...(options.length > 0 ? ["-o", options.join(",")] : []), source, at];

/** What mount(8) or the program in its place means with an exit code and its words. */
function failureOf(output: Output, { program, errorPatterns: words }: FilesystemMount): MountFailure {
  const complaint = complaintOf(output);
  const known = program?.exits[output.exitCode];
  if (!known)
    return { code: mountErrorCode(complaint, words), text: `${complaint}${mountErrorAdvice(complaint, words)}` };
  return { code: known.code, text: complaint === "" ? known.text : `${known.text} (${complaint})` };
}

/** A mount that is not what was asked for is not final: the source may have been an automount, or moved meanwhile. */
function mountFailed(output: Output, task: string, wrong: string | undefined, meaning?: MountFailure): CsiError {
  if (output.exitCode === 0) return new CsiError("unavailable", `${task} failed: ${wrong}`);
  const { code, text } = meaning ?? { code: "internal", text: complaintOf(output) };
  return new CsiError(code, `${task} failed with exit code ${output.exitCode}: ${text}`);
}
