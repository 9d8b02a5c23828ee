import { randomUUID } from "node:crypto";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Argv, CommandRunner } from "../../io/runner.ts";
import { fileFailure } from "../mount/files.ts";
import { RecordFolder } from "../state/record-folder.ts";
import type { BlockDevice } from "./block-device.ts";
import { bytesAt, type Contents, contentsOf, failed, flush, run } from "./contents.ts";
import { type Filesystem, filesystems } from "./filesystems.ts";

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

const blockBytes = 4096n;

const words = "csimux is making a file system here, mark ";

/** The number of the block that holds a mark `fromEnd` bytes before the end of a disk. */
const blockOf = (bytes: bigint, fromEnd: bigint): bigint => (bytes - fromEnd) / blockBytes;

/**
 * Writes a mark to the disk, which says that csimux is making a file system with this UUID. The tool does not overwrite
 * it, so the result of an interrupted run can be distinguished from foreign data.
 */
export async function writeMark(
  device: BlockDevice,
  fromEnd: bigint,
  uuid: string,
  runner: CommandRunner,
  signal: AbortSignal,
): Promise<void> {
  await put(device, fromEnd, { stdin: `${words}${uuid}\n`.padEnd(Number(blockBytes)) }, runner, signal);
}

/** Removes the mark if it is still complete; leaves anything that has been written over it. */
export async function clearMark(
  device: BlockDevice,
  fromEnd: bigint,
  uuid: string,
  runner: CommandRunner,
  signal: AbortSignal,
): Promise<void> {
  if (await hasMark(device, fromEnd, uuid, runner, signal))
    await put(device, fromEnd, { from: "/dev/zero" }, runner, signal);
}

/** Whether the disk holds the mark with this UUID. */
export async function hasMark(
  device: BlockDevice,
  fromEnd: bigint,
  uuid: string,
  runner: CommandRunner,
  signal: AbortSignal,
): Promise<boolean> {
  const mark = `${words}${uuid}\n`;
  const found = await bytesAt(device.path, blockOf(device.bytes, fromEnd) * blockBytes, mark.length, runner, signal);
  return found.toString("latin1") === mark;
}

async function put(
  { path, bytes }: BlockDevice,
  fromEnd: bigint,
  content: { readonly stdin: string } | { readonly from: string },
  runner: CommandRunner,
  signal: AbortSignal,
): Promise<void> {
  const task = `writing a mark to ${path}`;
  const input = "from" in content ? [`if=${content.from}`] : [];
  const block = [`bs=${blockBytes}`, `seek=${blockOf(bytes, fromEnd)}`, "count=1", "iflag=fullblock"];
  const argv = ["dd", ...input, `of=${path}`, ...block, "conv=notrunc,nocreat,fsync", "status=none"] as const;
  const output = await run(runner, { argv, ...("stdin" in content && { stdin: content.stdin }) }, task, signal);
  if (output.exitCode !== 0) throw failed(output, task);
}

/** A format that was started on this node and may not have finished. */
export interface UnfinishedFormat {
  readonly volumeId: string;
  /** From the table of file systems. */
  readonly type: string;
  /** The UUID passed to the tool. */
  readonly uuid: string;
  /** The identity and the size of the disk when the format started. */
  readonly identity: string;
  readonly bytes: string;
}

/**
 * Records of formats that may not have finished, on disk before the first byte of the volume changes. They outlive
 * unstaging: only the record proves that a half-made file system is csimux's own.
 */
export class UnfinishedFormats {
  readonly #folder: RecordFolder;

  /** Creates `folder` if it is missing. */
  constructor(folder: string) {
    this.#folder = new RecordFolder(folder);
  }

  /**
   * The unfinished format of a volume. Undefined if there is none, and for an unreadable file, which proves nothing.
   */
  async find(volumeId: string): Promise<UnfinishedFormat | undefined> {
    const text = await this.#folder.read(volumeId).catch((cause: unknown) => {
      throw new CsiError("unavailable", `the format record of volume "${volumeId}" cannot be read; retrying`, {
        cause,
      });
    });
    const found = text === undefined ? undefined : parsed(text);
    return found?.volumeId === volumeId ? found : undefined;
  }

  /** Resolves once the record is on disk. Throws as fileFailure does. */
  async begin(format: UnfinishedFormat): Promise<void> {
    await this.#folder.write(format.volumeId, JSON.stringify(format), true).catch((cause: unknown) => {
      throw fileFailure(cause, `writing the format record of volume "${format.volumeId}"`);
    });
  }

  /** Removes the record; succeeds if there is none. */
  async end(volumeId: string): Promise<void> {
    await this.#folder.remove(volumeId).catch((cause: unknown) => {
      throw fileFailure(cause, `removing the format record of volume "${volumeId}"`);
    });
  }
}

const keys = ["volumeId", "type", "uuid", "identity", "bytes"] as const;

function parsed(text: string): UnfinishedFormat | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isUnfinishedFormat(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function isUnfinishedFormat(value: unknown): value is UnfinishedFormat {
  if (typeof value !== "object" || value === null) return false;
  const fields = new Map(Object.entries(value));
  return keys.every(key => typeof fields.get(key) === "string");
}
