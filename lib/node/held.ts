import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { errnoOf } from "../core/errno.ts";
import { bounded } from "./files.ts";

/**
 * Whether the kernel has given a block device to somebody alone: it is mounted, in whatever mount namespace, or something is
 * built on it (open(2), O_EXCL on a block device). A device that is gone, or cannot be opened, is held by nobody.
 */
export async function isHeld(path: string, signal: AbortSignal): Promise<boolean> {
  const look = async (): Promise<boolean> => {
    try {
      const handle = await open(path, constants.O_RDONLY | constants.O_EXCL | constants.O_NONBLOCK);
      await handle.close();
      return false;
    } catch (cause) {
      return errnoOf(cause) === "EBUSY";
    }
  };
  return await bounded(look(), `opening ${path}`, signal);
}
