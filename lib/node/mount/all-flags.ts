import type { Capability } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { ownSecrets } from "../attach/secrets.ts";
import type { Context } from "../requests.ts";
import { flagWords } from "./flags.ts";
import { refuseFlags } from "./refused-flags.ts";

/** The key of a stage secret whose value is a comma list of mount flags; it often carries a password for SMB. */
const secretKey = "mount_flags";

/**
 * The capability with every flag that a staged mount gets, in the order of democratic-csi: those of the class, those that the
 * node's settings give to all volumes, those of the secret. Where two of them say different things, the later one counts. Throws as
 * refuseFlags does.
 */
export function withAllFlags(
  volumeId: string,
  capability: Capability,
  ofNode: readonly string[],
  context: Context,
  call: Call,
): Capability {
  if (capability.kind === "block") return capability;
  const secret = ownSecrets(call.secrets, context)[secretKey];
  refuseFlags(volumeId, [...capability.mountFlags, ...(secret ? [secret] : [])], ofNode);
  return { ...capability, mountFlags: flagWords([...capability.mountFlags, ...ofNode, ...(secret ? [secret] : [])]) };
}

/** Flags whose values must stand nowhere: not in a command line, a record or a log (mount.cifs(8)). */
const password = /^(?:password2?|pass2?)=/i;

/** The flags that hold no password. */
export const withoutPasswords = (flags: readonly string[]): readonly string[] =>
  flagWords(flags).filter(flag => !password.test(flag));

/** The value of the last flag with one of these names, or undefined. */
export function flagValue(flags: readonly string[], ...names: readonly string[]): string | undefined {
  const found = flags.findLast(flag => names.includes(flag.slice(0, flag.indexOf("=")).toLowerCase()));
  return found?.slice(found.indexOf("=") + 1);
}
