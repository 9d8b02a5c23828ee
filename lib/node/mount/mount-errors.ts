import type { Code } from "../../core/errors.ts";

/** The status codes for error output of mount(8) and its helpers, and advice if the output gives none. */
export type MountErrorPatterns = readonly (readonly [words: RegExp, code: Code, advice?: string])[];

/** The error to report for a refused mount. */
export interface MountFailure {
  readonly code: Code;
  readonly text: string;
}

/** Error output of mount(8) (util-linux 2.38, libmount/src/context_mount.c) and the resolver for any type of mount. */
const common: MountErrorPatterns = [
  [/unknown filesystem type|helper program|wrong fs type|bad option|bad superblock/i, "failed-precondition"],
  [/No such device|not supported by the system|Protocol not supported/i, "failed-precondition"],
  [/incorrect mount option|Invalid argument|Operation not permitted/i, "failed-precondition"],
  [/access denied|Permission denied|bind \/.* failed/i, "permission-denied"],
  [/No space left|mount table full/i, "resource-exhausted"],
  [/not a directory|path prefix/i, "failed-precondition"],
  [/Stale file handle/i, "unavailable"],
  [/refused|timed out|No route to host|unreachable|Host is down|Connection reset/i, "unavailable"],
  [/Failed to resolve|could not resolve|Name or service not known|Temporary failure|Try again/i, "unavailable"],
  [/No such file or directory|does not exist/i, "not-found"],
];

/** What mount(8) says (EUCLEAN, EBADMSG, EIO, EINVAL) if the kernel cannot use a file system that `tool` repairs. */
export const damaged = (tool: string): MountErrorPatterns[number] => [
  /Structure needs cleaning|corrupted filesystem|can't read superblock|bad superblock/i,
  "failed-precondition",
  `the file system is damaged or larger than its disk, the disk cannot be read, or an option is wrong: see the kernel's log of this node. Repair a damaged one with ${tool} while no pod uses it`,
];

/** The meaning of the error output of a refused mount; the code of unknown output is "internal". */
export function mountFailure(complaint: string, own: MountErrorPatterns = []): MountFailure {
  const [, code = "internal", advice] = [...own, ...common].find(([words]) => words.test(complaint)) ?? [];
  return { code, text: advice === undefined ? complaint : `${complaint}; ${advice}` };
}
