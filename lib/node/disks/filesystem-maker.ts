import { randomUUID } from "node:crypto";
import { leastBytes } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { type Argv, type CommandRunner, run, runToSuccess } from "../../io/runner.ts";
import { hasTexts, RecordFolder } from "../state/record-folder.ts";
import type { BlockDevice } from "./block-device.ts";
import { type Contents, DiskReader } from "./contents.ts";
import { type Filesystem, filesystems } from "./filesystems.ts";

/** Time limit for mkfs, in milliseconds: enough for an empty disk of any size. The call usually ends before. */
const makeMs = 600_000;

/** The smallest disk that can hold a file system without a limit of its own, in bytes. */
const leastOfAny = 2n << 20n;

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

/** Additional arguments of mkfs. */
type Options = readonly string[];

interface Making {
  readonly options: Options;
  /** The tool may overwrite an interrupted run of itself. */
  readonly overwrites: boolean;
}

/**
 * Makes file systems on disks that are provably empty, or that hold a provably unfinished format of csimux's own. The
 * proof is a record, on disk before the first byte of the volume changes, and what is found on the volume itself. The
 * record outlives unstaging.
 */
export class FilesystemMaker {
  readonly #runner: CommandRunner;
  readonly #formats: RecordFolder<UnfinishedFormat>;

  /** `folder` holds the records. */
  constructor(runner: CommandRunner, folder: string) {
    this.#runner = runner;
    const keys = ["volumeId", "type", "uuid", "identity", "bytes"] as const;
    const parse = (value: unknown) => (hasTexts(value, keys) ? value : undefined);
    this.#formats = new RecordFolder(folder, "the format record of volume", parse);
  }

  /** The unfinished format of a volume; undefined if there is none, or if its file is unreadable and proves nothing. */
  async unfinished(volumeId: string): Promise<UnfinishedFormat | undefined> {
    const format = (await this.#formats.read(volumeId))?.record;
    return format?.volumeId === volumeId ? format : undefined;
  }

  /**
   * Makes a file system on a disk that DiskReader has just found "blank", with `options` as additional arguments of mkfs. Throws
   * "unavailable" when the tool fails or the call ends; a retry continues from there.
   */
  async make(
    device: BlockDevice,
    { volumeId, type, options }: { readonly volumeId: string; readonly type: string; readonly options: Options },
    call: Call,
  ): Promise<void> {
    const { path, bytes, identity } = device;
    const least = leastBytes[type] ?? leastOfAny;
    if (bytes < least) {
      const text = `${path} has ${bytes} bytes, and ${type} needs ${least}; expand the volume or request another file system`;
      throw new CsiError("failed-precondition", text);
    }
    const format: UnfinishedFormat = { volumeId, type, uuid: randomUUID(), identity, bytes: String(bytes) };
    await this.#formats.write(volumeId, format, true);
    await this.#run(device, format, { options, overwrites: false }, call);
  }

  /** Whether the disk and the record prove that its contents are an interrupted format of csimux's own. */
  async isUnfinished(device: BlockDevice, format: UnfinishedFormat, found: Contents, call: Call): Promise<boolean> {
    const { mark, uuid } = known(format.type).trace;
    if (format.identity !== device.identity || format.bytes !== String(device.bytes)) return false;
    const disk = new DiskReader(device, this.#runner, call.signal);
    if (mark !== undefined && found.kind === "unsigned" && (await hasMark(disk, device, mark, format))) return true;
    if (!uuid) return false;
    const { at, unfinished } = uuid;
    if (found.kind !== "filesystem" || found.type !== format.type) return false;
    if ((await disk.bytes(unfinished.at, 1))[0] !== unfinished.is) return false;
    return (await disk.bytes(at, 16)).toString("hex") === format.uuid.replaceAll("-", "");
  }

  /** Formats again over an interrupted format that isUnfinished has proved. */
  async repeat(device: BlockDevice, format: UnfinishedFormat, options: Options, call: Call): Promise<void> {
    await this.#run(device, format, { options, overwrites: true }, call);
  }

  /** Removes the record of a complete format, and its mark on the disk unless something was written over it. */
  async finish(device: BlockDevice, format: UnfinishedFormat, call: Call): Promise<void> {
    await this.removeMark(device, format.type, call);
    await this.#formats.remove(format.volumeId);
  }

  /**
   * Removes the mark of any format from a disk with a complete file system of this type, unless something was written over it. The node
   * that made the file system may still have its record: once data is on the disk, the mark must not prove an interrupted format there.
   */
  async removeMark(device: BlockDevice, type: string, call: Call): Promise<void> {
    const mark = filesystems[type]?.trace.mark;
    if (mark === undefined) return;
    const disk = new DiskReader(device, this.#runner, call.signal);
    const block = await disk.bytes(blockOf(device.bytes, mark) * blockBytes, Number(blockBytes));
    if (anyMark.test(block.toString("latin1"))) await this.#writeMark(device, mark, undefined, call);
  }

  async #run(device: BlockDevice, format: UnfinishedFormat, how: Making, call: Call): Promise<void> {
    const { path } = device;
    const filesystem = known(format.type);
    const task = `making ${format.type} on ${path}`;
    call.log.info("making a file system", {
      volumeId: format.volumeId,
      device: path,
      type: format.type,
      isRepeated: how.overwrites,
    });
    const { mark } = filesystem.trace;
    if (mark !== undefined) await this.#writeMark(device, mark, markOf(format), call);
    const argv = await this.#argv(filesystem, format, path, how, call);
    await runToSuccess(this.#runner, { argv, timeoutMs: makeMs }, task, call.signal);
    const disk = new DiskReader(device, this.#runner, call.signal);
    await disk.flush();
    const made = await disk.contents(format.type);
    if (made.kind !== "filesystem" || made.type !== format.type) {
      const text = `${task}: the tool reported success, but the disk shows ${made.kind}; retrying`;
      throw new CsiError("unavailable", text);
    }
    await this.finish(device, format, call);
  }

  async #argv(
    { make, overwrite, young, joined }: Filesystem,
    { uuid }: UnfinishedFormat,
    path: string,
    { options: own, overwrites }: Making,
    call: Call,
  ): Promise<Argv> {
    const [program, ...words] = make(uuid);
    const without = young ? await this.#without(young, program, own, call) : [];
    const whole = joined ? withJoined(joined, own) : own;
    return [program, ...words, ...without, ...(overwrites ? overwrite : []), ...whole, path];
  }

  /** Arguments that turn off `young` features of the tool, unless `own` sets them: no option may appear twice. */
  async #without(young: NonNullable<Filesystem["young"]>, program: string, own: readonly string[], call: Call) {
    const usage = await run(this.#runner, { argv: [program] }, `reading the usage of ${program}`, call.signal);
    const text = `${usage.stdout}${usage.stderr}`;
    return young
      .filter(([, feature]) => text.includes(`${feature}=0|1`) && !own.some(word => word.includes(`${feature}=`)))
      .flatMap(([option, feature]) => [option, `${feature}=0`]);
  }

  /** Writes the block of a mark, with zeros if `text` is undefined. */
  async #writeMark({ path, bytes }: BlockDevice, fromEnd: bigint, text: string | undefined, call: Call): Promise<void> {
    const input = text === undefined ? ["if=/dev/zero"] : [];
    const block = [`bs=${blockBytes}`, `seek=${blockOf(bytes, fromEnd)}`, "count=1", "iflag=fullblock"];
    const argv = ["dd", ...input, `of=${path}`, ...block, "conv=notrunc,nocreat,fsync", "status=none"] as const;
    const stdin = text?.padEnd(Number(blockBytes));
    await runToSuccess(this.#runner, { argv, ...(stdin && { stdin }) }, `writing a mark to ${path}`, call.signal);
  }
}

/** The arguments with all values of an option as one, of which `value` is the last. */
function withJoined({ option, value }: NonNullable<Filesystem["joined"]>, own: Options): Options {
  const isValue = own.map((word, index) => own[index - 1] === option || (word !== option && word.startsWith(option)));
  const values = own
    .filter((_, index) => isValue[index])
    .map(word => (word.startsWith(option) ? word.slice(option.length) : word));
  return [...own.filter((word, index) => word !== option && !isValue[index]), option, [...values, value].join()];
}

const blockBytes = 4096n;

/** The number of the block that holds a mark `fromEnd` bytes before the end of a disk. */
const blockOf = (bytes: bigint, fromEnd: bigint): bigint => (bytes - fromEnd) / blockBytes;

/**
 * The mark on a disk that csimux is formatting. The tool does not overwrite it, so the result of an interrupted run can
 * be distinguished from foreign data.
 */
const markOf = ({ uuid }: UnfinishedFormat): string => `csimux is making a file system here, mark ${uuid}\n`;

/** The block of any mark. */
const anyMark = /^csimux is making a file system here, mark [0-9a-f-]{36}\n *$/;

async function hasMark(disk: DiskReader, { bytes }: BlockDevice, fromEnd: bigint, format: UnfinishedFormat) {
  const mark = markOf(format);
  return (await disk.bytes(blockOf(bytes, fromEnd) * blockBytes, mark.length)).toString("latin1") === mark;
}

function known(type: string): Filesystem {
  const filesystem = filesystems[type];
  if (filesystem) return filesystem;
  throw new CsiError("failed-precondition", `csimux cannot make the file system ${type}`);
}
