import { constants, type Stats } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { CsiError, errnoOf } from "../core/errors.ts";

/** The text of a file, and the stat(2) result of the same open file. */
export interface SmallFile {
  readonly text: string;
  readonly stats: Stats;
}

/**
 * The text of a small regular file, or undefined if it does not exist. Never waits for a writer: pipes, devices and
 * folders are refused. Throws "failed-precondition" if it cannot be read or is larger than `maxBytes`.
 */
export async function readSmallFile(path: string, maxBytes: number): Promise<string | undefined> {
  return (await openSmallFile(path, maxBytes))?.text;
}

/** Like readSmallFile, with the stat(2) result of the file. */
export async function openSmallFile(path: string, maxBytes: number): Promise<SmallFile | undefined> {
  let file: FileHandle | undefined;
  try {
    // Opening alone can start a device, so check the type first, and again afterwards because the path may have
    // changed.
    if (!(await stat(path)).isFile()) throw notRegular(path);
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    const stats = await file.stat();
    if (!stats.isFile()) throw notRegular(path);
    if (stats.size > maxBytes) throw tooLarge(path, maxBytes);
    return { text: await text(file, path, maxBytes, stats.size), stats };
  } catch (cause) {
    if (cause instanceof CsiError) throw cause;
    const code = errnoOf(cause) ?? "unknown reason";
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw new CsiError("failed-precondition", `the file ${path} cannot be read (${code})`, { cause });
  } finally {
    await file?.close();
  }
}

/** Files below /proc and /sys have no size, so the limit is checked while reading. */
async function text(file: FileHandle, path: string, maxBytes: number, size: number): Promise<string> {
  // One byte more than expected reveals that the file grows.
  let buffer = Buffer.alloc(size > 0 ? size + 1 : maxBytes + 1);
  let filled = 0;
  for (;;) {
    const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, null);
    if (bytesRead === 0) return buffer.toString("utf8", 0, filled);
    filled += bytesRead;
    if (filled > maxBytes) throw tooLarge(path, maxBytes);
    if (filled === buffer.length) buffer = Buffer.concat([buffer], maxBytes + 1);
  }
}

const notRegular = (path: string): CsiError =>
  new CsiError("failed-precondition", `${path} is not a regular file; pipes, devices and folders are not read`);

const tooLarge = (path: string, maxBytes: number): CsiError =>
  new CsiError("failed-precondition", `the file ${path} is larger than ${maxBytes} bytes`);
