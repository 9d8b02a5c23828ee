import { CsiError } from "../../core/errors.ts";
import { isLocalName } from "../../core/local-filesystems.ts";
import type { Mount } from "../../core/mountinfo.ts";
import { commandFailure } from "../../io/commands.ts";
import { type Command, CommandError, type CommandRunner } from "../../io/runner.ts";
import { statMs } from "../mount/file-type.ts";

/** The state of a mount: it answers, its server no longer knows it, or its server does not answer. */
export type MountHealth = "fine" | "stale" | "silent";

/**
 * Error output of stat(1) (strerror(3), locale C). Other errors prove nothing; a new SMB mount may first return EAGAIN.
 */
const meanings: readonly (readonly [RegExp, MountHealth])[] = [
  [/Stale file handle|Transport endpoint is not connected/, "stale"],
  [/Host is down|No route to host|timed out/, "silent"],
];

/**
 * Checks a server's mount with statfs(2) in a program that can be killed; local disks are always "fine". Throws
 * "unavailable" when the call ends first.
 */
export async function mountHealth(mount: Mount, runner: CommandRunner, signal: AbortSignal): Promise<MountHealth> {
  if (isLocalName(mount.fsType)) return "fine";
  try {
    const command: Command = { argv: ["stat", "-f", "-c", "%T", mount.at], timeoutMs: statMs };
    const { exitCode, stderr } = await runner.run(command, signal);
    return exitCode === 0 ? "fine" : (meanings.find(([words]) => words.test(stderr))?.[1] ?? "fine");
  } catch (error) {
    if (error instanceof CommandError && error.failure === "timeout") return "silent";
    throw commandFailure(error, `checking ${mount.at}`);
  }
}

/** The error for a mount that must not be touched while its server does not answer. */
export const serverSilent = (volumeId: string, { source, at }: Mount): CsiError =>
  new CsiError("unavailable", `volume "${volumeId}": the server of ${source}, mounted at ${at}, does not answer`);
