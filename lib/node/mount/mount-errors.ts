import type { Code } from "../../core/errors.ts";

/** What a complaint of mount(8) or one of its helpers means for the caller, and what is to be done where the words do not say. */
export type MountErrorPatterns = readonly (readonly [words: RegExp, code: Code, advice?: string])[];

/** What mount(8) itself and the resolver say, whatever is mounted. */
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

/** The code for a mount that was refused; "internal" for words that nobody knows. */
export const mountErrorCode = (complaint: string, own: MountErrorPatterns = []): Code =>
  [...own, ...common].find(([words]) => words.test(complaint))?.[1] ?? "internal";

/** What to do about a complaint, with a separator in front; empty where its words say enough. */
export function mountErrorAdvice(complaint: string, own: MountErrorPatterns = []): string {
  const advice = own.find(([words]) => words.test(complaint))?.[2];
  return advice === undefined ? "" : `; ${advice}`;
}
