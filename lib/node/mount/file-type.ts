import type { Stats } from "node:fs";
import { lstat } from "node:fs/promises";
import { errnoOf } from "../../core/errno.ts";
import { CsiError } from "../../core/errors.ts";
import { isLocalName } from "../../core/local-filesystems.ts";
import { commandFailure } from "../../io/commands.ts";
import type { CommandRunner } from "../../io/runner.ts";
import { boundedOn } from "./files.ts";
import type { MountTable } from "./mount-table.ts";

/** Whether the path is on a local file system, so that a system call on it cannot hang this process. */
export const isOnLocalFilesystem = (path: string, table: MountTable): boolean =>
  isLocalName(table.covering(path)?.fsType ?? "");

/** Time limit for a program that inspects a path, in milliseconds. */
export const statMs = 5_000;

/** The type of a file, in the words of stat(1); symbolic links are not followed. */
export type FileType = "directory" | "symbolic link" | "regular file" | "special file";

/**
 * The type of the file at a real path, or undefined if none exists. On other than local file systems, runs a program
 * that can be killed. Throws "unavailable" or "deadline-exceeded" when there is no answer.
 */
export async function fileTypeAt(
  path: string,
  table: MountTable,
  runner: CommandRunner,
  signal: AbortSignal,
): Promise<FileType | undefined> {
  if (!isOnLocalFilesystem(path, table)) return await askProgram(path, runner, signal);
  const inspect = () =>
    lstat(path).then(fileTypeOf, (cause: unknown) => {
      if (errnoOf(cause) === "ENOENT") return undefined;
      throw cause;
    });
  return await boundedOn(path, table, inspect, `checking ${path}`, signal);
}

function fileTypeOf(stats: Stats): FileType {
  if (stats.isDirectory()) return "directory";
  if (stats.isSymbolicLink()) return "symbolic link";
  return stats.isFile() ? "regular file" : "special file";
}

async function askProgram(path: string, runner: CommandRunner, signal: AbortSignal): Promise<FileType | undefined> {
  const command = { argv: ["stat", "-c", "%F", path], timeoutMs: statMs } as const;
  const output = await runner.run(command, signal).catch((error: unknown) => {
    throw commandFailure(error, `checking ${path}`);
  });
  if (output.exitCode === 0) return typeNamed(output.stdout.trim());
  if (output.stderr.includes("No such file or directory")) return undefined;
  throw new CsiError("unavailable", `${path} does not answer: ${output.stderr.trim().slice(0, 300)}`);
}

const typeNamed = (words: string): FileType =>
  words === "directory" || words === "symbolic link"
    ? words
    : words.startsWith("regular")
      ? "regular file"
      : "special file";
