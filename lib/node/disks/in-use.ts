import { constants } from "node:fs";
import { open } from "node:fs/promises";
import type { Call } from "../../core/call.ts";
import { errnoOf } from "../../core/errno.ts";
import { commandFailure } from "../../io/commands.ts";
import type { CommandRunner } from "../../io/runner.ts";
import { bounded } from "../mount/files.ts";

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

/**
 * Has the kernel write what it still holds back for a device. One that cannot be written to any more loses what its last user did
 * not sync; keeping it attached would not bring that back, so it is only said.
 */
export async function flushDisk(path: string, runner: CommandRunner, call: Call): Promise<void> {
  const output = await runner.run({ argv: ["blockdev", "--flushbufs", path] }, call.signal).catch((error: unknown) => {
    throw commandFailure(error, `flushing ${path}`);
  });
  if (output.exitCode !== 0) call.log.warn("a disk could not be flushed before it is detached", { path });
}
