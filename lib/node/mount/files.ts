import { errnoOf } from "../../core/errno.ts";
import { type Code, CsiError } from "../../core/errors.ts";
import { fileThreads } from "../../io/file-threads.ts";
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
  cause instanceof CsiError
    ? cause
    : new CsiError(
        codes[errnoOf(cause) ?? ""] ?? "unavailable",
        `${task} failed: ${errnoOf(cause) ?? "unknown reason"}`,
        {
          cause,
        },
      );

/**
 * Waits for a file operation, but not longer than the call: the kernel may never answer for a dead network mount.
 * Throws "unavailable" when the call ends first, and fileFailure's error when the operation fails.
 */
export async function bounded<T>(work: Promise<T>, task: string, signal: AbortSignal): Promise<T> {
  let end = (): void => {};
  const ended = new Promise<never>((_, reject) => {
    end = () => reject(new CsiError("unavailable", `${task} did not finish before the call ended`));
  });
  if (signal.aborted) end();
  signal.addEventListener("abort", end, { once: true });
  try {
    return await Promise.race([work, ended]);
  } catch (cause) {
    throw fileFailure(cause, task);
  } finally {
    signal.removeEventListener("abort", end);
  }
}

/**
 * As `bounded`, for a file system that may never answer: waits to start while too many operations on that of `path` are
 * pending.
 */
export function boundedOn<T>(
  path: string,
  table: MountTable,
  work: () => Promise<T>,
  task: string,
  signal: AbortSignal,
): Promise<T> {
  const slots = fileThreads.onDevice(table.covering(path)?.device ?? "");
  return bounded(slots.run(work, signal), task, signal);
}
