import { CsiError } from "../core/errors.ts";
import { isLocalName } from "../core/local-filesystems.ts";
import type { Mount } from "../core/mountinfo.ts";
import { commandFailure } from "../io/commands.ts";
import { CommandError, type CommandRunner } from "../io/runner.ts";
import { lookMs } from "./look.ts";

/** Whether what is mounted answers: it does, its server no longer knows it, or nothing is heard at all. */
export type Health = "fine" | "stale" | "silent";

/**
 * Asks a mount of a server by statfs(2), in a program that can be killed; disks of this node are fine. Throws "unavailable" when
 * the call ends first.
 */
export async function healthOf(mount: Mount, runner: CommandRunner, signal: AbortSignal): Promise<Health> {
  if (isLocalName(mount.fsType)) return "fine";
  try {
    const { exitCode } = await runner.run({ argv: ["stat", "-f", "-c", "%T", mount.at], timeoutMs: lookMs }, signal);
    return exitCode === 0 ? "fine" : "stale";
  } catch (error) {
    if (error instanceof CommandError && error.failure === "timeout") return "silent";
    throw commandFailure(error, `looking at ${mount.at}`);
  }
}

/** For a mount that must not be touched while nothing is heard of its server. */
export const silent = (volumeId: string, { source, at }: Mount): CsiError =>
  new CsiError("unavailable", `volume "${volumeId}": the server of ${source}, mounted at ${at}, does not answer`);
