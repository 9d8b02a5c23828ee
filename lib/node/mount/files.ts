// lib/node/mount: mounts and mount points. mounts.ts and unmounter.ts run mount(8) and umount(8) and believe the mount
// table alone; volume-mounter.ts mounts attached volumes for staging, share-points.ts shares for the controller;
// files.ts checks paths without hanging on dead mounts; flags.ts has the rules for mount flags.

import type { Stats } from "node:fs";
import { lstat, mkdir, open, realpath, rmdir, unlink } from "node:fs/promises";
import { posix } from "node:path";
import { type Code, CsiError, errnoOf } from "../../core/errors.ts";
import { isLocalName } from "../../core/mountinfo.ts";
import { unlessAborted } from "../../core/time.ts";
import { fileThreads } from "../../io/file-threads.ts";
import { type CommandRunner, run } from "../../io/runner.ts";
import type { MountTable } from "./mount-table.ts";

const codes: Readonly<Record<string, Code>> = {
  ENOENT: "not-found",
  ENAMETOOLONG: "invalid-argument",
  ENOSPC: "resource-exhausted",
  EDQUOT: "resource-exhausted",
  EACCES: "failed-precondition",
  EPERM: "failed-precondition",
  EROFS: "failed-precondition",
  ELOOP: "failed-precondition",
  ENOTDIR: "failed-precondition",
  EEXIST: "failed-precondition",
};

/** The error for a failed file operation; `task` names the work and the path. "unavailable" for unknown errors. */
export const fileFailure = (cause: unknown, task: string): CsiError =>
  cause instanceof CsiError ? cause : failureOf(cause, errnoOf(cause), task);

const failureOf = (cause: unknown, errno: string | undefined, task: string): CsiError =>
  new CsiError(codes[errno ?? ""] ?? "unavailable", `${task} failed: ${errno ?? "unknown reason"}`, { cause });

/**
 * Waits for a file operation, but not longer than the call: the kernel may never answer for a dead network mount.
 * Throws "unavailable" when the call ends first, and fileFailure's error when the operation fails.
 */
export const bounded = <T>(work: Promise<T>, task: string, signal: AbortSignal): Promise<T> =>
  unlessAborted(work, signal, () => new CsiError("unavailable", `${task} did not finish before the call ended`)).catch(
    (cause: unknown) => {
      throw fileFailure(cause, task);
    },
  );

/** As `bounded`, but waits to start while too many operations on the file system of `path` are pending. */
function boundedOn<T>(
  path: string,
  table: MountTable,
  work: () => Promise<T>,
  task: string,
  signal: AbortSignal,
): Promise<T> {
  const slots = fileThreads.onDevice(table.covering(path)?.device ?? "");
  return bounded(slots.run(work, signal), task, signal);
}

/** The errors that say nothing about a file: this process or machine has no means left to read it. */
const exhausted: readonly string[] = ["EMFILE", "ENFILE", "ENOMEM"];

/** Handles a failure to read what may be absent: `value` for any error, but throws "unavailable" if this process can read nothing. */
export const unlessExhausted =
  <T>(value: T) =>
  (error: unknown): T => {
    const errno = errnoOf(error instanceof CsiError ? error.cause : error);
    if (errno === undefined || !exhausted.includes(errno)) return value;
    throw new CsiError(
      "unavailable",
      `csimux has no file handles or no memory left on this node (${errno}); retrying`,
      {
        cause: error,
      },
    );
  };

/** Handles a failed file operation: `value` for one of these errors, throws any other. */
const unless =
  <T>(errors: readonly string[], value: T) =>
  (cause: unknown): T => {
    if (errors.includes(errnoOf(cause) ?? "")) return value;
    throw cause;
  };

/** PATH_MAX of Linux, in bytes, without the terminating NUL. */
const maxPathBytes = 4095;

const isControl = (character: string): boolean => character < " " || character === "\x7f";

/** Why a text must not be used as a path on the node; undefined if it may. */
function refusalOf(path: string): string | undefined {
  if (!path.startsWith("/")) return "is not absolute";
  if ([...path].some(isControl)) return "contains a control character";
  if (path.split("/").includes("..")) return 'contains ".."';
  if (Buffer.byteLength(path) > maxPathBytes) return "is too long";
  return /^[/.]+$/.test(path) && posix.normalize(path) === "/" ? "is the root folder" : undefined;
}

/** The path without repeated, trailing and "." parts, or undefined if it must not be used. */
export const normalPath = (path: string): string | undefined => {
  if (refusalOf(path)) return undefined;
  const normal = posix.normalize(path);
  return normal.endsWith("/") ? normal.slice(0, -1) : normal;
};

/** As normalPath. Throws "invalid-argument" naming `field` and the reason. */
export function checkedPath(path: string, field: string): string {
  const normal = normalPath(path);
  if (normal === undefined)
    throw new CsiError("invalid-argument", `${field} ${JSON.stringify(path.slice(0, 200))} ${refusalOf(path)}`);
  return normal;
}

/**
 * The real path of `path`, as in the mount table: resolves the symbolic links of its parent folders. The last part is
 * not accessed, because it may be the root of a mount that no longer answers; check the mount table before accessing
 * it. Parents need not exist.
 */
export async function resolveParents(path: string, table: MountTable, signal: AbortSignal): Promise<string> {
  if (path === "/" || table.top(path)) return path;
  const parent = posix.dirname(path);
  return posix.join(
    (await resolvedFolder(parent, table, signal)) ?? (await resolveParents(parent, table, signal)),
    posix.basename(path),
  );
}

async function resolvedFolder(folder: string, table: MountTable, signal: AbortSignal): Promise<string | undefined> {
  const find = () => realpath(folder).catch(unless(["ENOENT", "ENOTDIR"], undefined));
  return await boundedOn(folder, table, find, `resolving ${folder}`, signal);
}

/** Whether the path is on a local file system, so that a system call on it cannot hang this process. */
export const isOnLocalFilesystem = (path: string, table: MountTable): boolean =>
  isLocalName(table.covering(path)?.fsType ?? "");

/** Time limit for a program that inspects a path, in milliseconds. */
export const statMs = 5_000;

/** The type of a file, as stat(1) writes it; symbolic links are not followed. */
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
  const inspect = () => lstat(path).then(fileTypeOf, unless(["ENOENT"], undefined));
  return await boundedOn(path, table, inspect, `checking ${path}`, signal);
}

function fileTypeOf(stats: Stats): FileType {
  if (stats.isDirectory()) return "directory";
  if (stats.isSymbolicLink()) return "symbolic link";
  return stats.isFile() ? "regular file" : "special file";
}

async function askProgram(path: string, runner: CommandRunner, signal: AbortSignal): Promise<FileType | undefined> {
  const command = { argv: ["stat", "-c", "%F", path], timeoutMs: statMs } as const;
  const output = await run(runner, command, `checking ${path}`, signal);
  if (output.exitCode === 0) return typeNamed(output.stdout.trim());
  if (output.stderr.includes("No such file or directory")) return undefined;
  throw new CsiError("unavailable", `${path} does not answer: ${output.stderr.trim().slice(0, 300)}`);
}

function typeNamed(words: string): FileType {
  if (words === "directory" || words === "symbolic link") return words;
  return words.startsWith("regular") ? "regular file" : "special file";
}

/** The mode of folders that csimux creates below the kubelet's: access for root and its group. */
const folderMode = 0o750;

/**
 * Ensures that an unmounted path is a folder; creates it with its parents. Returns whether the last part was created.
 * Throws "failed-precondition" for anything else, also for a symbolic link: a mount on it would appear at its target.
 */
export async function ensureFolder(path: string, signal: AbortSignal): Promise<boolean> {
  const made = await bounded(
    mkdir(path, { mode: folderMode }).then(() => true, existing(path)),
    `creating ${path}`,
    signal,
  );
  if (made) return true;
  const stats = await bounded(lstat(path), `checking ${path}`, signal);
  if (stats.isDirectory()) return false;
  const what = stats.isSymbolicLink() ? "a symbolic link" : "not a folder";
  throw new CsiError("failed-precondition", `${path} is ${what}; nothing can be mounted there`);
}

/** Handles a failed mkdir: false for an existing entry; creates missing parents and retries. */
const existing =
  (path: string) =>
  async (cause: unknown): Promise<boolean> => {
    if (errnoOf(cause) === "EEXIST") return false;
    if (errnoOf(cause) !== "ENOENT") throw cause;
    return (await mkdir(path, { recursive: true, mode: folderMode })) !== undefined;
  };

/**
 * Ensures that an unmounted path in an existing folder is an empty file, to bind a device to. Returns whether it was
 * created. Throws "failed-precondition" for anything else.
 */
export async function ensureFile(path: string, signal: AbortSignal): Promise<boolean> {
  const make = async () => (await open(path, "wx", 0o600)).close();
  const made = make().then(() => true, unless(["EEXIST"], false));
  if (await bounded(made, `creating ${path}`, signal)) return true;
  const stats = await bounded(lstat(path), `checking ${path}`, signal);
  if (stats.isFile() && stats.size === 0) return false;
  throw new CsiError("failed-precondition", `${path} is not an empty file; no device can be bound to it`);
}

/**
 * Removes the empty folder or empty file at an unmounted path; succeeds if there is none. Keeps anything that holds
 * data: throws "failed-precondition" for a folder that is not empty, a file with content, or a link.
 */
export async function removeMountPoint(path: string, signal: AbortSignal): Promise<void> {
  await bounded(remove(path), `removing ${path}`, signal);
}

async function remove(path: string): Promise<void> {
  try {
    await rmdir(path);
  } catch (cause) {
    if (errnoOf(cause) === "ENOENT") return;
    if (errnoOf(cause) === "ENOTDIR") return await removeFile(path);
    if (errnoOf(cause) === "ENOTEMPTY" || errnoOf(cause) === "EEXIST") {
      const text = `${path} is unmounted but not empty, so it was not removed; move its content away`;
      throw new CsiError("failed-precondition", text);
    }
    throw fileFailure(cause, `removing ${path}`);
  }
}

async function removeFile(path: string): Promise<void> {
  const stats = await lstat(path).catch(unless(["ENOENT", "ENOTDIR"], undefined));
  if (!stats) return;
  if (stats.isFile() && stats.size === 0) return await unlink(path);
  throw new CsiError("failed-precondition", `${path} was not created by csimux, so it was not removed`);
}
