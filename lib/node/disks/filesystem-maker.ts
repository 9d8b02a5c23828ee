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

/** No tool takes longer on an empty disk, whatever its size; mostly the call ends before. */
const makeMs = 600_000;

/** Less than this is no disk for any of the file systems. */
const leastBytes = 2n << 20n;

/** Makes file systems on disks that are provably empty, or provably csimux's own half-finished work. */
export class FilesystemMaker {
  readonly #runner: CommandRunner;
  readonly #formats: UnfinishedFormats;
  readonly #options: (type: string) => readonly string[];

  /** `options` gives further arguments of mkfs for a type. */
  constructor(runner: CommandRunner, formats: UnfinishedFormats, options: (type: string) => readonly string[]) {
    this.#runner = runner;
    this.#formats = formats;
    this.#options = options;
  }

  /**
   * Makes a file system on a disk whose contents were just found to be "blank". What is being done is on record before the disk
   * changes. Throws "unavailable" when the tool fails or the call ends; a repeated call goes on from there.
   */
  async make(device: BlockDevice, volumeId: string, type: string, call: Call): Promise<void> {
    if (device.bytes < leastBytes)
      throw new CsiError("failed-precondition", `${device.path} has ${device.bytes} bytes, too few for a file system`);
    const { bytes, identity } = device;
    const begun: UnfinishedFormat = { volumeId, type, uuid: randomUUID(), identity, bytes: String(bytes) };
    await this.#formats.begin(begun);
    await this.#run(device, begun, false, call);
  }

  /** Whether what was found on a disk is what an interrupted making of csimux left, by its record and by the disk itself. */
  async isUnfinished(
    device: BlockDevice,
    begun: UnfinishedFormat,
    found: Contents,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { mark, uuid } = known(begun.type).trace;
    if (begun.identity !== device.identity || begun.bytes !== String(device.bytes)) return false;
    if (
      mark !== undefined &&
      found.kind === "unsigned" &&
      (await hasMark(device, mark, begun.uuid, this.#runner, signal))
    )
      return true;
    if (!uuid) return false;
    const { at, unfinished } = uuid;
    if (unfinished ? found.kind !== "filesystem" || found.type !== begun.type : found.kind !== "unsigned") return false;
    if (unfinished && (await this.#read(device, unfinished.at, 1, signal)) !== hex(unfinished.is)) return false;
    return (await this.#read(device, at, 16, signal)) === begun.uuid.replaceAll("-", "");
  }

  /** Makes a file system anew over an interrupted making that isUnfinished has proven. */
  async repeat(device: BlockDevice, begun: UnfinishedFormat, call: Call): Promise<void> {
    await this.#run(device, begun, true, call);
  }

  /** A making that turned out to be finished: its record goes, and its mark if it is still there. */
  async settle(device: BlockDevice, begun: UnfinishedFormat, signal: AbortSignal): Promise<void> {
    const { mark } = known(begun.type).trace;
    if (mark !== undefined) await clearMark(device, mark, begun.uuid, this.#runner, signal);
    await this.#formats.end(begun.volumeId);
  }

  async #run(device: BlockDevice, begun: UnfinishedFormat, isRepeated: boolean, call: Call): Promise<void> {
    const { path } = device;
    const filesystem = known(begun.type);
    const task = `making ${begun.type} on ${path}`;
    call.log.info("making a file system", { volumeId: begun.volumeId, device: path, type: begun.type, isRepeated });
    const { mark } = filesystem.trace;
    if (mark !== undefined) await writeMark(device, mark, begun.uuid, this.#runner, call.signal);
    const argv = await this.#argv(filesystem, begun, path, isRepeated, call);
    const output = await run(this.#runner, { argv, timeoutMs: makeMs }, task, call.signal);
    if (output.exitCode !== 0) throw failed(output, task);
    await flush(path, this.#runner, call.signal);
    const made = await contentsOf(device, this.#runner, call.signal);
    if (made.kind !== "filesystem" || made.type !== begun.type) {
      throw new CsiError("unavailable", `${task}: the tool reported success, but the disk shows ${made.kind}`);
    }
    await this.settle(device, begun, call.signal);
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

  /** What turns off the features that a tool names in its usage and that `own` does not speak of: it takes none twice. */
  async #without(
    { young }: Filesystem,
    program: string,
    own: readonly string[],
    call: Call,
  ): Promise<readonly string[]> {
    if (!young) return [];
    const usage = await run(this.#runner, { argv: [program] }, `asking ${program} what it knows`, call.signal);
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
