import { type Capability, flagWords } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { ownSecrets } from "../attach/context.ts";
import type { VolumeContext } from "../requests.ts";

/** Flags that belong to a single mount, so that a bind mount can have them (mount(8), "FILESYSTEM-INDEPENDENT"). */
const restricting: ReadonlySet<string> = new Set(["ro", "nosuid", "nodev", "noexec", "nosymfollow"]);
const accessTimes: ReadonlySet<string> = new Set(["noatime", "relatime", "strictatime"]);

/**
 * The flags of a list that a bind mount can have, sorted and unique. Omits file system options (`nfsvers=3`,
 * `context=…`) and flags that would weaken the source's own protection (`suid`, `exec`, `dev`, `rw`).
 */
export const bindFlags = (flags: readonly string[]): readonly string[] =>
  [
    ...new Set(
      flagWords(flags).filter(flag => restricting.has(flag) || accessTimes.has(flag) || flag === "nodiratime"),
    ),
  ].sort();

/** The flags of a list that `bindFlags` omits, without those that only state the default. */
export const otherFlags = (flags: readonly string[]): readonly string[] => {
  const kept = new Set(bindFlags(flags));
  return flagWords(flags).filter(flag => !kept.has(flag) && !["defaults", "rw"].includes(flag));
};

/**
 * The options of a bind mount: the requested flags and those of the source's mount. Changing one flag of a bind mount
 * sets all of them, so a source mounted with "nosuid" would lose that if it were not repeated.
 */
export function bindOptions(wanted: readonly string[], source: readonly string[]): readonly string[] {
  const choosesTimes = wanted.some(flag => accessTimes.has(flag));
  const inherited = bindFlags(source).filter(flag => !(choosesTimes && accessTimes.has(flag)));
  return [...new Set([...wanted, ...inherited])].sort();
}

/** The protecting flags that a mount lacks. Ignores access-time flags, because the kernel does not list all of them. */
export const lackingFlags = (wanted: readonly string[], present: readonly string[]): readonly string[] =>
  wanted.filter(flag => restricting.has(flag) && !present.includes(flag));

/**
 * Options that make mount(8) mount something other than the volume, or change another mount: a folder named like the
 * share, an existing mount, an image file, another folder, other propagation (mount(8), mount(2)).
 */
const ofOtherMounts: ReadonlySet<string> = new Set([
  ...["bind", "rbind", "move", "remount", "loop", "offset", "sizelimit", "encryption", "helper", "uhelper"],
  ...["shared", "slave", "private", "unbindable", "rshared", "rslave", "rprivate", "runbindable"],
]);

/** Options of libmount that create folders or show other folders or owners ("X-mount.subdir", "X-mount.idmap"). */
const ofLibmount = /^(?:x-mount\.|make-|verity\.)/;

/** Options that name other devices of the node: xfs(5), ext4(5), btrfs(5). */
const ofOtherDevices: ReadonlySet<string> = new Set(["logdev", "rtdev", "journal_path", "journal_dev", "device"]);

/** Options that name files or folders of the node; allowed in connection files only. */
const ofFiles: ReadonlySet<string> = new Set(["credentials", "cred", "skpath", "env"]);

const nameOf = (flag: string): string => (flag.split("=")[0] ?? "").trim().toLowerCase();

const isRefused = (name: string): boolean =>
  ofOtherMounts.has(name) || ofOtherDevices.has(name) || ofLibmount.test(name);

/**
 * Throws "invalid-argument", naming the option, for mount flags that would reach beyond the volume. `given` are flags
 * of classes, PersistentVolumes and secrets, `ofNode` those of files that the node's administrator writes.
 */
export function refuseFlags(volumeId: string, given: readonly string[], ofNode: readonly string[] = []): void {
  const all = [...flagWords(given), ...flagWords(ofNode)].map(nameOf);
  const bad =
    all.find(isRefused) ??
    flagWords(given)
      .map(nameOf)
      .find(name => ofFiles.has(name));
  if (bad === undefined) return;
  const why = ofFiles.has(bad)
    ? "it names a file of the node; put the file's content into the node-stage secret"
    : "it would mount something other than the volume, or change another mount";
  throw new CsiError("invalid-argument", `volume "${volumeId}": the mount option "${bad}" is not allowed: ${why}`);
}

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
  context: VolumeContext,
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
