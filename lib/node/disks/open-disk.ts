import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { CsiError } from "../../core/errors.ts";
import { bounded } from "../mount/files.ts";

/**
 * Opens a disk for reading. Throws "unavailable" when it cannot be opened or the call ends first: opening a disk
 * without any working path may block for minutes.
 */
export async function openDisk(path: string, signal: AbortSignal): Promise<FileHandle> {
  const opening = open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return await bounded(opening, `opening ${path}`, signal);
  } catch (cause) {
    opening.then(
      late => late.close(),
      () => {},
    );
    throw new CsiError("unavailable", `the disk ${path} cannot be opened; retrying`, { cause });
  }
}
