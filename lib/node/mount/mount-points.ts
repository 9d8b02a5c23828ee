import { lstat, mkdir, open, rmdir, unlink } from "node:fs/promises";
import { errnoOf } from "../../core/errno.ts";
import { CsiError } from "../../core/errors.ts";
import { bounded, fileFailure } from "./files.ts";

/** Folders that csimux makes below the kubelet's are for root and its group. */
const folderMode = 0o750;

/**
 * Makes sure that an unmounted place is a folder, with its parents. Returns whether the last part was made here.
 * A symbolic link is refused: a mount on it would appear wherever it points. Throws "failed-precondition" for anything else.
 */
export async function ensureFolder(place: string, signal: AbortSignal): Promise<boolean> {
  const made = await bounded(
    mkdir(place, { mode: folderMode }).then(() => true, existing(place)),
    `making ${place}`,
    signal,
  );
  if (made) return true;
  const stats = await bounded(lstat(place), `looking at ${place}`, signal);
  if (stats.isDirectory()) return false;
  const what = stats.isSymbolicLink() ? "a symbolic link" : "no folder";
  throw new CsiError("failed-precondition", `${place} is ${what}; nothing can be mounted there`);
}

/** Answers a failed mkdir: false for an entry that exists; missing parents are made and the rest is tried again. */
const existing =
  (place: string) =>
  async (cause: unknown): Promise<boolean> => {
    if (errnoOf(cause) === "EEXIST") return false;
    if (errnoOf(cause) !== "ENOENT") throw cause;
    return (await mkdir(place, { recursive: true, mode: folderMode })) !== undefined;
  };

/**
 * Makes sure that an unmounted place in an existing folder is an empty file, for a device to be bound to. Returns whether it was
 * made here. Throws "failed-precondition" for anything else.
 */
export async function ensureFile(place: string, signal: AbortSignal): Promise<boolean> {
  const make = async (): Promise<boolean> => {
    await (await open(place, "wx", 0o600)).close();
    return true;
  };
  const none = (cause: unknown): boolean => {
    if (errnoOf(cause) === "EEXIST") return false;
    throw cause;
  };
  if (await bounded(make().catch(none), `making ${place}`, signal)) return true;
  const stats = await bounded(lstat(place), `looking at ${place}`, signal);
  if (stats.isFile() && stats.size === 0) return false;
  throw new CsiError("failed-precondition", `${place} is no empty file; no device can be shown there`);
}

/**
 * Removes the empty folder or empty file at an unmounted place; success when there is none. What holds data stays:
 * "failed-precondition" for a folder that is not empty, a file with content, or a link.
 */
export async function removeMountPoint(place: string, signal: AbortSignal): Promise<void> {
  await bounded(remove(place), `removing ${place}`, signal);
}

async function remove(place: string): Promise<void> {
  try {
    await rmdir(place);
  } catch (cause) {
    if (errnoOf(cause) === "ENOENT") return;
    if (errnoOf(cause) === "ENOTDIR") return await removeFile(place);
    if (errnoOf(cause) === "ENOTEMPTY" || errnoOf(cause) === "EEXIST") {
      throw new CsiError(
        "failed-precondition",
        `${place} is unmounted but not empty; it is left alone, move its content away`,
      );
    }
    throw fileFailure(cause, `removing ${place}`);
  }
}

async function removeFile(place: string): Promise<void> {
  const stats = await lstat(place).catch((cause: unknown) => {
    if (errnoOf(cause) === "ENOENT" || errnoOf(cause) === "ENOTDIR") return undefined;
    throw cause;
  });
  if (!stats) return;
  if (stats.isFile() && stats.size === 0) return await unlink(place);
  throw new CsiError("failed-precondition", `${place} is not an entry that csimux made; it is left alone`);
}
