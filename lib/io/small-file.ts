import { constants } from "node:fs";
import { type FileHandle, open, stat } from "node:fs/promises";
import { errnoOf } from "../core/errno.ts";
import { CsiError } from "../core/errors.ts";

/**
 * The text of a small regular file, or undefined when there is none. Never blocks: pipes, devices and folders are refused.
 * Throws "failed-precondition" when it cannot be read or holds more than `maxBytes`.
 */
export async function readSmallFile(path: string, maxBytes: number): Promise<string | undefined> {
  let file: FileHandle | undefined;
  try {
    // Opening alone can start a device, so the type is looked at first; and again, because the path may have changed.
    if (!(await stat(path)).isFile()) throw notRegular(path);
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    if (!(await file.stat()).isFile()) throw notRegular(path);
    return await text(file, path, maxBytes);
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
async function text(file: FileHandle, path: string, maxBytes: number): Promise<string> {
  const { size } = await file.stat();
  if (size > maxBytes) throw tooLarge(path, maxBytes);
  const buffer = Buffer.alloc(maxBytes + 1);
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, null);
    if (bytesRead === 0) return buffer.toString("utf8", 0, filled);
    filled += bytesRead;
  }
  throw tooLarge(path, maxBytes);
}

const notRegular = (path: string): CsiError =>
  new CsiError("failed-precondition", `${path} is no regular file; pipes, devices and folders are not read`);

const tooLarge = (path: string, maxBytes: number): CsiError =>
  new CsiError("failed-precondition", `the file ${path} is larger than ${maxBytes} bytes`);
