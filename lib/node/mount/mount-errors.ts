import type { Code } from "../../core/errors.ts";

/** The status codes for error output of mount(8) and its helpers, and advice if the output gives none. */
export type MountErrorPatterns = readonly (readonly [words: RegExp, code: Code, advice?: string])[];

/** Error output of mount(8) and the resolver for any type of mount. */
const common: MountErrorPatterns = [
  [/unknown filesystem type|helper program|wrong fs type|bad option|bad superblock/i, "failed-precondition"],
  [/No such device|not supported by the system|Protocol not supported/i, "failed-precondition"],
  [/incorrect mount option|Invalid argument|Operation not permitted/i, "failed-precondition"],
  [/access denied|Permission denied/i, "permission-denied"],
  [/Stale file handle/i, "unavailable"],
  [/refused|timed out|No route to host|unreachable|Host is down|Connection reset/i, "unavailable"],
  [/Failed to resolve|could not resolve|Name or service not known|Temporary failure|Try again/i, "unavailable"],
  [/No such file or directory/i, "not-found"],
];

/** The code for a refused mount; "internal" for unknown error output. */
export const mountErrorCode = (complaint: string, own: MountErrorPatterns = []): Code =>
  [...own, ...common].find(([words]) => words.test(complaint))?.[1] ?? "internal";

/** The advice for an error, after a separator; empty if there is none. */
export function mountErrorAdvice(complaint: string, own: MountErrorPatterns = []): string {
  const advice = own.find(([words]) => words.test(complaint))?.[2];
  return advice === undefined ? "" : `; ${advice}`;
}
