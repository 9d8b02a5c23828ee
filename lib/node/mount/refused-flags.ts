import { CsiError } from "../../core/errors.ts";
import { flagWords } from "./flags.ts";

/**
 * Options that make mount(8) mount something else than the volume, or change another mount: a folder named like the
 * share, an existing mount, an image file, another folder, other propagation (mount(8), mount(2)).
 */
const ofOtherMounts: ReadonlySet<string> = new Set([
  ...["bind", "rbind", "move", "remount", "loop", "offset", "sizelimit", "encryption", "helper", "uhelper"],
  ...["shared", "slave", "private", "unbindable", "rshared", "rslave", "rprivate", "runbindable"],
]);

/**
 * Options of libmount that create folders, or show another folder or owner than the volume's ("X-mount.subdir",
 * "X-mount.idmap").
 */
const ofLibmount = /^(?:x-mount\.|make-|verity\.)/;

/** Options that name other devices of the node: xfs(5), ext4(5), btrfs(5). */
const ofOtherDevices: ReadonlySet<string> = new Set(["logdev", "rtdev", "journal_path", "journal_dev", "device"]);

/**
 * Options that name files of the node: mount.cifs(8), mount.lustre(8), mount.objectivefs ("env=" is a folder of
 * variables). Allowed in connection files only.
 */
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
    : "it would mount something else than the volume, or change another mount";
  throw new CsiError("invalid-argument", `volume "${volumeId}": the mount option "${bad}" is not allowed: ${why}`);
}
