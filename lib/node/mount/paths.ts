import { realpath } from "node:fs/promises";
import { posix } from "node:path";
import { errnoOf } from "../../core/errno.ts";
import { CsiError } from "../../core/errors.ts";
import { boundedOn } from "./files.ts";
import type { MountTable } from "./mount-table.ts";

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
  const find = () =>
    realpath(folder).catch((cause: unknown) => {
      if (errnoOf(cause) === "ENOENT" || errnoOf(cause) === "ENOTDIR") return undefined;
      throw cause;
    });
  return await boundedOn(folder, table, find, `resolving ${folder}`, signal);
}
