import type { Capability } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { ownSecrets } from "../attach/secrets.ts";
import type { Context } from "../requests.ts";
import { flagWords } from "./flags.ts";
import { refuseFlags } from "./refused-flags.ts";

/** The key of the stage secret that holds a comma-separated list of mount flags, often with the password for SMB. */
const secretKey = "mount_flags";

/**
 * The capability with all flags of a staging mount, in the order of democratic-csi: flags of the class, of the node's
 * settings, of the secret. Later flags override earlier ones. Throws as refuseFlags does.
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

/** Flags with passwords, which must not appear in a command line, a record or a log (mount.cifs(8)). */
const password = /^(?:password2?|pass2?)=/i;

/** The flags without a password. */
export const withoutPasswords = (flags: readonly string[]): readonly string[] =>
  flagWords(flags).filter(flag => !password.test(flag));

/** The value of the last flag with one of these names, or undefined. */
export function flagValue(flags: readonly string[], ...names: readonly string[]): string | undefined {
  const found = flags.findLast(flag => names.includes(flag.slice(0, flag.indexOf("=")).toLowerCase()));
  return found?.slice(found.indexOf("=") + 1);
}
