import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { hasNoDevice, type Mount } from "../../core/mountinfo.ts";
import { type Argv, type CommandRunner, complaint, type Output, run } from "../../io/runner.ts";
import type { AttachedShare } from "../attach/attacher.ts";
import { deviceNumber } from "../disks/block-device.ts";
import { ensureFolder, removeMountPoint, resolveParents } from "./files.ts";
import { bindOptions, lackingFlags } from "./flags.ts";
import { type MountFailure, mountFailure } from "./mount-errors.ts";
import { type Identity, type MountTable, readMountTable, sameFolder } from "./mount-table.ts";
import { type MountHealth, mountHealth, Unmounter } from "./unmounter.ts";

/** A bind mount to make. Paths are real ones, from resolveParents. */
export interface BindMount {
  readonly source: string;
  readonly at: string;
  /** From bindFlags; "ro" makes the mount read-only. */
  readonly flags: readonly string[];
  /** The number ("major:minor") of the device that the mount must show; absent for a folder. */
  readonly number?: string;
  /** The source is a mount by csimux of the same volume: that mount may be read-only and this one writable. */
  readonly sameVolume?: boolean;
}

/** A file system to mount at a real path. */
export interface FilesystemMount extends Omit<AttachedShare, "kind" | "alternatives"> {
  readonly at: string;
  /** As in BindMount; passed to the mount itself. */
  readonly flags: readonly string[];
  /** As in Command. */
  readonly timeoutMs?: number;
  /** The number ("major:minor") of the device that the mount must be of; absent if it has no device. */
  readonly number?: string;
}

/** The suffix of the folders in which mounts are prepared. */
const preparationSuffix = ".mount";

/** Makes and undoes mounts with mount(8) and umount(8), and verifies the result in the kernel's mount table. */
export class Mounts {
  readonly #runner: CommandRunner;
  readonly #host: CommandRunner;
  readonly #mountinfo: string;
  readonly #folder: string;
  readonly #unmounting: Unmounter;

  /** `mountinfo` is /proc/self/mountinfo outside tests; `folder` is csimux's own, for short-lived mounts. */
  constructor(runner: CommandRunner, host: CommandRunner, mountinfo: string, folder: string) {
    this.#runner = runner;
    this.#host = host;
    this.#mountinfo = mountinfo;
    this.#folder = folder;
    this.#unmounting = new Unmounter(runner, () => this.table());
  }

  /** The current mounts. Throws "unavailable". */
  table(): Promise<MountTable> {
    return readMountTable(this.#mountinfo);
  }

  /**
   * Binds a folder to an unmounted path and verifies the result; undoes a wrong mount. Throws "failed-precondition"
   * when a writable mount is impossible because the source's mount or file system is read-only.
   */
  async bind(bind: BindMount, before: MountTable, signal: AbortSignal): Promise<void> {
    const source = before.covering(bind.source);
    const inherited = source?.options ?? [];
    const isLifted = bind.sameVolume === true && inherited.includes("ro") && !bind.flags.includes("ro");
    const isReadOnly = inherited.includes("ro") && !isLifted ? "mount" : source?.readOnly ? "file system" : undefined;
    if (isReadOnly && !bind.flags.includes("ro")) {
      const text = `${bind.source} is on a read-only ${isReadOnly}; make it writable or request a read-only volume`;
      throw new CsiError("failed-precondition", text);
    }
    if (!isLifted && bind.flags.every(flag => inherited.includes(flag)))
      return await this.#attach(bind, [], before, signal);
    await this.#bindProtected(bind, isLifted ? "lifted" : bindOptions(bind.flags, inherited), before, signal);
  }

  /**
   * Flags are set only after a mount is made, and do not reach the copies that the kernel makes in other mount
   * namespaces (mount_namespaces(7)), such as the one that a pod gets. So they are set on a private mount first, which
   * is then bound. "lifted": a copy of a read-only mount becomes writable.
   */
  async #bindProtected(
    bind: BindMount,
    options: readonly string[] | "lifted",
    before: MountTable,
    signal: AbortSignal,
  ): Promise<void> {
    const wanted = before.identity(bind.source);
    const at = await this.#preparationFolder(bind.at, before, signal);
    await this.#clear(at, before, signal);
    await ensureFolder(at, signal);
    try {
      if (options === "lifted") await this.#attachLifted({ ...bind, at }, await this.table(), signal);
      else await this.#attach({ ...bind, at }, options, await this.table(), signal);
      // Another process that starts with this folder removes preparations, and what is left is a folder of the node.
      await this.#attach({ ...bind, source: at }, [], await this.table(), signal, wanted);
    } finally {
      // The next bind or unmount of the same mount point clears what a failure leaves here.
      const clear = async () => this.#clear(at, await this.table(), signal);
      await clear().catch(() => {});
    }
  }

  async #attachLifted(bind: BindMount, before: MountTable, signal: AbortSignal): Promise<void> {
    await this.#attach({ ...bind, flags: ["ro"] }, [], before, signal);
    const kept = (before.covering(bind.source)?.options ?? []).filter(flag => flag !== "ro");
    const options = ["rw", ...bindOptions(bind.flags, kept)];
    await this.#remount(bind.at, before.identity(bind.source), bind.flags, options, signal);
  }

  /** The folder in which the mount for this mount point is prepared. */
  #preparationFolder(at: string, table: MountTable, signal: AbortSignal): Promise<string> {
    const name = createHash("sha256").update(at).digest("hex");
    return resolveParents(join(this.#folder, `${name}${preparationSuffix}`), table, signal);
  }

  /** Removes preparations of earlier processes and returns their number. Throws "unavailable" for one in use. */
  async removePreparations(signal: AbortSignal): Promise<number> {
    const table = await this.table();
    const folder = await resolveParents(this.#folder, table, signal);
    const left = table.points().filter(at => dirname(at) === folder && at.endsWith(preparationSuffix));
    for (const at of left) await this.#clear(at, await this.table(), signal);
    return left.length;
  }

  /** Unmounts a preparation. Its empty folder may stay: it is harmless, and the disk may be read-only. */
  async #clear(preparation: string, before: MountTable, signal: AbortSignal): Promise<void> {
    await this.#unmounting.unmountAll(preparation, before, signal);
    await removeMountPoint(preparation, signal).catch(() => {});
  }

  /** Binds with these options; without any, the mount is a plain copy of the source's. `wanted` is what it must show. */
  async #attach(
    bind: BindMount,
    options: readonly string[],
    before: MountTable,
    signal: AbortSignal,
    wanted = before.identity(bind.source),
  ): Promise<void> {
    const task = `binding ${bind.source} to ${bind.at}`;
    const argv: Argv = ["mount", "-n", "-o", ["bind", ...options].join(","), bind.source, bind.at];
    const output = await run(this.#runner, { argv }, task, signal);
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
   * Mounts a file system at an unmounted path and returns what the mount shows; undoes a wrong mount. The output of
   * mount(8) decides which error is thrown when it refuses.
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
    const output = await run(wanted.onHost ? this.#host : this.#runner, { argv, ...more }, task, signal);
    const after = await this.table();
    const top = after.top(at);
    const wrong =
      mountMismatch(top, top ?? { device: "", root: "" }, flags) ??
      (top && number && (await deviceMismatch(top, number)));
    if (output.exitCode === 0 && top && !wrong) return { device: top.device, root: top.root };
    if (after.layers(at) > before.layers(at)) await this.#unmounting.unmountAll(at, after, signal);
    throw mountFailed(output, task, wrong, failureOf(output, wanted));
  }

  /** Sets the flags of an existing mount, if a crash between making and protecting it left them out. */
  async protect(
    at: string,
    shows: Identity,
    flags: readonly string[],
    before: MountTable,
    signal: AbortSignal,
  ): Promise<void> {
    await this.#remount(at, shows, flags, bindOptions(flags, before.top(at)?.options ?? []), signal);
  }

  /** Changes the flags of one mount and verifies them. */
  async #remount(
    at: string,
    shows: Identity,
    flags: readonly string[],
    options: readonly string[],
    signal: AbortSignal,
  ): Promise<void> {
    const task = `setting the flags of ${at}`;
    const argv: Argv = ["mount", "-n", "-o", ["remount", "bind", ...options].join(","), at];
    const output = await run(this.#runner, { argv }, task, signal);
    const wrong = mountMismatch((await this.table()).top(at), shows, flags);
    if (output.exitCode !== 0 || wrong) throw mountFailed(output, task, wrong);
  }

  /** As Unmounter.unmountAll; also clears the preparation of a bind mount there. */
  async unmount(at: string, before: MountTable, call: Call): Promise<void> {
    await this.#clear(await this.#preparationFolder(at, before, call.signal), before, call.signal);
    await this.#unmounting.unmountAll(at, before, call.signal, call.log);
  }

  /** As mountHealth. */
  health(mount: Mount, signal: AbortSignal): Promise<MountHealth> {
    return mountHealth(mount, this.#runner, signal);
  }
}

/** The difference of a mount from `wanted` and these flags, for messages; undefined if there is none. */
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

/** The difference of a mount from the device with this number, for messages; undefined if there is none. */
async function deviceMismatch({ device, source }: Mount, number: string): Promise<string | undefined> {
  const shown = hasNoDevice(device) ? await numberOf(source) : device;
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

/** The error for an exit code and output of mount(8) or the program used instead. */
function failureOf(output: Output, { program, errorPatterns, flags, options }: FilesystemMount): MountFailure {
  const why = complaint(output);
  const known = program?.exits[output.exitCode];
  if (known) return { code: known.code, text: why === "" ? known.text : `${known.text} (${why})` };
  const failure = mountFailure(why, errorPatterns);
  // Their values can be secret.
  const names = [...flags, ...options].map(option => option.split("=", 1)[0]).join();
  if (names === "" || !/bad option|incorrect mount option|unknown parameter/i.test(why)) return failure;
  return { ...failure, text: `${failure.text}; its options: ${names}` };
}

/** A wrong mount is "unavailable": the source may be an automount, or may have moved meanwhile. */
function mountFailed(
  output: Output,
  task: string,
  wrong: string | undefined,
  { code, text } = mountFailure(complaint(output)),
): CsiError {
  if (output.exitCode === 0) return new CsiError("unavailable", `${task} failed: ${wrong}`);
  return new CsiError(code, `${task} failed with exit code ${output.exitCode}: ${text}`);
}
