import type { CommandRunner } from "../../io/runner.ts";
import type { BlockDevice } from "./block-device.ts";
import { bytesAt } from "./contents.ts";
import { failed, run } from "./tool.ts";

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
