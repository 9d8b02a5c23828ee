import { type Code, CsiError, errnoOf } from "../../core/errors.ts";
import type { TryLocks } from "../../core/locks.ts";
import type { Semaphore } from "../../core/semaphore.ts";
import { type Files, unless } from "../../io/files.ts";
import type { CommandRunner } from "../../io/runner.ts";
import type { FailureContext } from "../failure.ts";
import type { Layout } from "./layout.ts";

/** Shared by all parts of a directory driver during one operation. */
export interface OperationContext extends FailureContext {
  /** `instance_id` of the connection file. */
  readonly instanceId: string | undefined;
  readonly files: Files;
  readonly layout: Layout;
  readonly runner: CommandRunner;
  /** Limits the number of tools that run on this storage at once. */
  readonly slots: Semaphore;
  /** One change of a tree at a time, by path. */
  readonly locks: TryLocks;
  /** Whether the base folder is on a local file system, which keeps every extended attribute that it accepts. */
  readonly local: boolean;
  /** Magic numbers of the allowed file systems of the base folder; undefined allows all. */
  readonly mountTypes: readonly number[] | undefined;
}

/** An error that names the connection. */
export const errorOn = (
  { connection }: Pick<OperationContext, "connection">,
  code: Code,
  text: string,
  options?: { readonly cause: unknown },
): CsiError => new CsiError(code, `connection "${connection}": ${text}`, options);

/**
 * Throws "unavailable" unless the base folder exists and is on the right file system. Required before reporting something as
 * absent and before creating anything: below an unmounted share everything looks deleted, and new data would be lost.
 */
export async function present(context: OperationContext): Promise<void> {
  const { files, layout, mountTypes } = context;
  // "/." follows a symbolic link: the base folder itself may be one.
  const entry = await files.entry(`${layout.base}/.`);
  if (entry === undefined) {
    const text = `${layout.base} does not exist; mount or create the folder that controllerBasePath names`;
    throw errorOn(context, "unavailable", text);
  }
  if (mountTypes === undefined) return;
  const { type } = await files.statfs(layout.base);
  if (mountTypes.includes(type)) return;
  const other = `${layout.base} is on a file system of another type (0x${type.toString(16)}), so the share is not mounted there; mount it`;
  throw errorOn(context, "unavailable", other);
}

/**
 * Runs `work`; if a folder is missing, creates `folders` (outermost first) and tries again. They are never removed; the base
 * folder itself is never created. Returns whether it created any.
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
