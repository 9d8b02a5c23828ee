import { CsiError } from "../../core/errors.ts";
import { isLocalName } from "../../core/local-filesystems.ts";
import type { Mount } from "../../core/mountinfo.ts";
import { commandFailure } from "../../io/commands.ts";
import { type Command, CommandError, type CommandRunner } from "../../io/runner.ts";
import { statMs } from "../mount/file-type.ts";

/** Whether what is mounted answers: it does, its server no longer knows it, or nothing is heard at all. */
export type MountHealth = "fine" | "stale" | "silent";

/** What stat(1) says (strerror(3), locale C). Other words prove nothing: a new mount of SMB asks for another try, for example. */
const meanings: readonly (readonly [RegExp, MountHealth])[] = [
  [/Stale file handle|Transport endpoint is not connected/, "stale"],
  [/Host is down|No route to host|timed out/, "silent"],
];

/**
 * Asks a mount of a server by statfs(2), in a program that can be killed; disks of this node are fine. Throws "unavailable" when
 * the call ends first.
 */
export async function mountHealth(mount: Mount, runner: CommandRunner, signal: AbortSignal): Promise<MountHealth> {
  if (isLocalName(mount.fsType)) return "fine";
  try {
    const command: Command = { argv: ["stat", "-f", "-c", "%T", mount.at], timeoutMs: statMs };
    const { exitCode, stderr } = await runner.run(command, signal);
    return exitCode === 0 ? "fine" : (meanings.find(([words]) => words.test(stderr))?.[1] ?? "fine");
  } catch (error) {
    if (error instanceof CommandError && error.failure === "timeout") return "silent";
    throw commandFailure(error, `looking at ${mount.at}`);
  }
}

/** For a mount that must not be touched while nothing is heard of its server. */
export const serverSilent = (volumeId: string, { source, at }: Mount): CsiError =>
  new CsiError("unavailable", `volume "${volumeId}": the server of ${source}, mounted at ${at}, does not answer`);
