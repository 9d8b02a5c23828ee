import { randomUUID } from "node:crypto";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Argv, CommandRunner } from "../../io/runner.ts";
import type { BlockDevice } from "./block-device.ts";
import { bytesAt, type Contents, contentsOf, flush } from "./contents.ts";
import { type Filesystem, filesystems } from "./filesystems.ts";
import { clearMark, hasMark, writeMark } from "./mark.ts";
import { failed, run } from "./tool.ts";
import type { UnfinishedFormat, UnfinishedFormats } from "./unfinished-formats.ts";

/** Time limit for mkfs, in milliseconds: enough for an empty disk of any size. The call usually ends before. */
const makeMs = 600_000;

/** The smallest disk that can hold any of the file systems, in bytes. */
const leastBytes = 2n << 20n;

/** Makes file systems on disks that are provably empty, or that hold a provably unfinished format of csimux's own. */
export class FilesystemMaker {
  readonly #runner: CommandRunner;
  readonly #formats: UnfinishedFormats;
  readonly #options: (type: string) => readonly string[];

  /** `options` returns additional arguments of mkfs for a type. */
  constructor(runner: CommandRunner, formats: UnfinishedFormats, options: (type: string) => readonly string[]) {
    this.#runner = runner;
    this.#formats = formats;
    this.#options = options;
  }

  /**
   * Makes a file system on a disk that contentsOf has just found "blank". Records the format before the disk changes.
   * Throws "unavailable" when the tool fails or the call ends; a retry continues from there.
   */
  async make(device: BlockDevice, volumeId: string, type: string, call: Call): Promise<void> {
    if (device.bytes < leastBytes)
      throw new CsiError("failed-precondition", `${device.path} has ${device.bytes} bytes, too few for a file system`);
    const { bytes, identity } = device;
    const format: UnfinishedFormat = { volumeId, type, uuid: randomUUID(), identity, bytes: String(bytes) };
    await this.#formats.begin(format);
    await this.#run(device, format, false, call);
  }

  /**
   * Whether the contents of a disk come from an interrupted format of csimux, according to its record and the disk
   * itself.
   */
  async isUnfinished(
    device: BlockDevice,
    format: UnfinishedFormat,
    found: Contents,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { mark, uuid } = known(format.type).trace;
    if (format.identity !== device.identity || format.bytes !== String(device.bytes)) return false;
    if (
      mark !== undefined &&
      found.kind === "unsigned" &&
      (await hasMark(device, mark, format.uuid, this.#runner, signal))
    )
      return true;
    if (!uuid) return false;
    const { at, unfinished } = uuid;
    if (unfinished ? found.kind !== "filesystem" || found.type !== format.type : found.kind !== "unsigned")
      return false;
    if (unfinished && (await this.#read(device, unfinished.at, 1, signal)) !== hex(unfinished.is)) return false;
    return (await this.#read(device, at, 16, signal)) === format.uuid.replaceAll("-", "");
  }

  /** Formats again over an interrupted format that isUnfinished has proved. */
  async repeat(device: BlockDevice, format: UnfinishedFormat, call: Call): Promise<void> {
    await this.#run(device, format, true, call);
  }

  /** Removes the record of a format that turned out to be complete, and its mark if that still exists. */
  async settle(device: BlockDevice, format: UnfinishedFormat, signal: AbortSignal): Promise<void> {
    const { mark } = known(format.type).trace;
    if (mark !== undefined) await clearMark(device, mark, format.uuid, this.#runner, signal);
    await this.#formats.end(format.volumeId);
  }

  async #run(device: BlockDevice, format: UnfinishedFormat, isRepeated: boolean, call: Call): Promise<void> {
    const { path } = device;
    const filesystem = known(format.type);
    const task = `making ${format.type} on ${path}`;
    call.log.info("making a file system", { volumeId: format.volumeId, device: path, type: format.type, isRepeated });
    const { mark } = filesystem.trace;
    if (mark !== undefined) await writeMark(device, mark, format.uuid, this.#runner, call.signal);
    const argv = await this.#argv(filesystem, format, path, isRepeated, call);
    const output = await run(this.#runner, { argv, timeoutMs: makeMs }, task, call.signal);
    if (output.exitCode !== 0) throw failed(output, task);
    await flush(path, this.#runner, call.signal);
    const made = await contentsOf(device, this.#runner, call.signal);
    if (made.kind !== "filesystem" || made.type !== format.type) {
      throw new CsiError(
        "unavailable",
        `${task}: the tool reported success, but the disk shows ${made.kind}; retrying`,
      );
    }
    await this.settle(device, format, call.signal);
  }

  async #argv(
    filesystem: Filesystem,
    { type, uuid }: UnfinishedFormat,
    path: string,
    isRepeated: boolean,
    call: Call,
  ): Promise<Argv> {
    const { make, overwrite } = filesystem;
    const own = this.#options(type);
    const [program, ...words] = make(uuid);
    const without = await this.#without(filesystem, program, own, call);
    return [program, ...words, ...without, ...(isRepeated ? overwrite : []), ...own, path];
  }

  /**
   * Arguments that turn off `young` features that the tool lists in its usage and `own` does not set: no option may
   * appear twice.
   */
  async #without(
    { young }: Filesystem,
    program: string,
    own: readonly string[],
    call: Call,
  ): Promise<readonly string[]> {
    if (!young) return [];
    const usage = await run(this.#runner, { argv: [program] }, `reading the usage of ${program}`, call.signal);
    const text = `${usage.stdout}${usage.stderr}`;
    const filesystemOf = young.filter(([, feature]) => text.includes(`${feature}=0|1`));
    const wanted = filesystemOf.filter(([, feature]) => !own.some(word => word.includes(`${feature}=`)));
    return wanted.flatMap(([option, feature]) => [option, `${feature}=0`]);
  }

  async #read({ path }: BlockDevice, at: bigint, count: number, signal: AbortSignal): Promise<string> {
    return (await bytesAt(path, at, count, this.#runner, signal)).toString("hex");
  }
}

const hex = (byte: number): string => byte.toString(16).padStart(2, "0");

function known(type: string): Filesystem {
  const filesystem = filesystems[type];
  if (filesystem) return filesystem;
  throw new CsiError("failed-precondition", `csimux cannot make the file system ${type}`);
}
