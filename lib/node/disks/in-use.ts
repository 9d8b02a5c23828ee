import { constants } from "node:fs";
import { open } from "node:fs/promises";
import type { Call } from "../../core/call.ts";
import { errnoOf } from "../../core/errors.ts";
import { type CommandRunner, run } from "../../io/runner.ts";
import { bounded, unlessExhausted } from "../mount/files.ts";

/**
 * Whether a block device is in exclusive use: mounted, in any mount namespace, or the base of another device (open(2),
 * O_EXCL on a block device). False for a device that is missing or cannot be opened. Throws "unavailable" if this process
 * cannot open anything.
 */
export async function isHeld(path: string, signal: AbortSignal): Promise<boolean> {
  const tryOpen = async (): Promise<boolean> => {
    try {
      const handle = await open(path, constants.O_RDONLY | constants.O_EXCL | constants.O_NONBLOCK);
      await handle.close();
      return false;
    } catch (cause) {
      return errnoOf(cause) === "EBUSY" || unlessExhausted(false)(cause);
    }
  };
  return await bounded(tryOpen(), `opening ${path}`, signal);
}

/**
 * Writes the kernel's buffers of a device back. If the device no longer accepts writes, data that its last user did not
 * sync is lost; keeping it attached would not recover that, so the failure is only logged.
 */
export async function flushDisk(path: string, runner: CommandRunner, call: Call): Promise<void> {
  const output = await run(runner, { argv: ["blockdev", "--flushbufs", path] }, `flushing ${path}`, call.signal);
  if (output.exitCode !== 0) call.log.warn("cannot flush a disk before detaching it", { path });
}
