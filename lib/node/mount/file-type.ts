import type { Stats } from "node:fs";
import { lstat } from "node:fs/promises";
import { errnoOf } from "../../core/errno.ts";
import { CsiError } from "../../core/errors.ts";
import { isLocalName } from "../../core/local-filesystems.ts";
import { commandFailure } from "../../io/commands.ts";
import type { CommandRunner } from "../../io/runner.ts";
import { boundedOn } from "./files.ts";
import type { MountTable } from "./mount-table.ts";

/** Whether a question about this path can be asked from within this process without the risk of hanging it. */
export const isOnLocalFilesystem = (path: string, table: MountTable): boolean =>
  isLocalName(table.covering(path)?.fsType ?? "");

/** How long a program may ask about a path, in milliseconds. */
export const statMs = 5_000;

/** What stands at a path; a symbolic link is not followed. The words are those of stat(1). */
export type FileType = "directory" | "symbolic link" | "regular file" | "special file";

/**
 * What stands at a real place, or undefined for nothing. Asked through a program that can be killed when the path is not on a
 * local file system. Throws "unavailable" or "deadline-exceeded" when there is no answer.
 */
export async function fileTypeAt(
  place: string,
  table: MountTable,
  runner: CommandRunner,
  signal: AbortSignal,
): Promise<FileType | undefined> {
  if (!isOnLocalFilesystem(place, table)) return await askProgram(place, runner, signal);
  const look = () =>
    lstat(place).then(fileTypeOf, (cause: unknown) => {
      if (errnoOf(cause) === "ENOENT") return undefined;
      throw cause;
    });
  return await boundedOn(place, table, look, `looking at ${place}`, signal);
}

function fileTypeOf(stats: Stats): FileType {
  if (stats.isDirectory()) return "directory";
  if (stats.isSymbolicLink()) return "symbolic link";
  return stats.isFile() ? "regular file" : "special file";
}

async function askProgram(place: string, runner: CommandRunner, signal: AbortSignal): Promise<FileType | undefined> {
  const command = { argv: ["stat", "-c", "%F", place], timeoutMs: statMs } as const;
  const output = await runner.run(command, signal).catch((error: unknown) => {
    throw commandFailure(error, `looking at ${place}`);
  });
  if (output.exitCode === 0) return named(output.stdout.trim());
  if (output.stderr.includes("No such file or directory")) return undefined;
  throw new CsiError("unavailable", `${place} does not answer: ${output.stderr.trim().slice(0, 300)}`);
}

const named = (words: string): FileType =>
  words === "directory" || words === "symbolic link"
    ? words
    : words.startsWith("regular")
      ? "regular file"
      : "special file";
