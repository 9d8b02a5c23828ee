import { CsiError, errnoOf } from "../../core/errors.ts";
import type { TryLocks } from "../../core/locks.ts";
import type { Semaphore } from "../../core/semaphore.ts";
import type { CommandRunner } from "../../io/runner.ts";
import type { FailureContext } from "../failure.ts";
import { type Files, unless } from "./files.ts";
import type { Layout } from "./layout.ts";

/** What all parts of one directory driver share during one operation. */
export interface OperationContext extends FailureContext {
  /** `instance_id` of the connection's file. */
  readonly instanceId: string | undefined;
  readonly files: Files;
  /** Where the base folder is. */
  readonly layout: Layout;
  readonly runner: CommandRunner;
  /** Bounds how many tools work on this storage at once. */
  readonly slots: Semaphore;
  /** One change of a tree at a time, by its path. */
  readonly locks: TryLocks;
  /** The base folder is on a file system of this machine, which gives back every extended attribute that it has taken. */
  readonly local: boolean;
  /** Magic numbers of the file systems that the base folder may be on; undefined allows all. */
  readonly mountTypes: readonly number[] | undefined;
}

/**
 * Throws "unavailable" unless the base folder is there and on the right file system. Whoever is about to say that something is
 * absent, or to make something, asks this first: below an unmounted share everything looks deleted, and what is made is lost.
 */
export async function present({ connection, files, layout, mountTypes }: OperationContext): Promise<void> {
  // "/." looks through a symbolic link: the base folder itself may be one.
  const entry = await files.entry(`${layout.base}/.`);
  if (entry === undefined) {
    throw new CsiError(
      "unavailable",
      `connection "${connection}": ${layout.base} does not exist; mount or create the folder that controllerBasePath names`,
    );
  }
  if (mountTypes === undefined) return;
  const { type } = await files.statfs(layout.base);
  if (mountTypes.includes(type)) return;
  throw new CsiError(
    "unavailable",
    `connection "${connection}": ${layout.base} is on a file system of another type (0x${type.toString(16)}), so the share is not mounted there; mount it`,
  );
}

/**
 * Runs `work`; when a folder that it needs is missing, makes `folders` (outermost first) and tries again. They stay for good; the base
 * folder itself is never made. Tells whether it made any.
 */
export async function withFolders(
  { files, layout }: OperationContext,
  folders: readonly string[],
  work: () => Promise<unknown>,
): Promise<boolean> {
  try {
    await work();
    return false;
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw error;
  }
  for (const folder of folders) {
    const mode = folder.startsWith(layout.own) ? 0o700 : 0o755;
    await unless(files.makeFolder(folder, mode), "EEXIST");
  }
  await work();
  return true;
}
