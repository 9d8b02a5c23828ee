import { CsiError } from "../../core/errors.ts";
import { flagWords } from "./flags.ts";

/**
 * Options that make mount(8) mount something else than the volume, or change another mount: the folder that a share is called
 * after, a mount that is there already, an image file, a folder elsewhere, other propagation (mount(8), mount(2)).
 */
const ofOtherMounts: ReadonlySet<string> = new Set([
  ...["bind", "rbind", "move", "remount", "loop", "offset", "sizelimit", "encryption", "helper", "uhelper"],
  ...["shared", "slave", "private", "unbindable", "rshared", "rslave", "rprivate", "runbindable"],
]);

/** Options of libmount that make folders, or show another folder or owner than the volume's ("X-mount.subdir", "X-mount.idmap"). */
const ofLibmount = /^(?:x-mount\.|make-|verity\.)/;

/** Options that name further devices of the node: xfs(5), ext4(5), btrfs(5). */
const ofOtherDevices: ReadonlySet<string> = new Set(["logdev", "rtdev", "journal_path", "journal_dev", "device"]);

/** Options that name files of the node: mount.cifs(8), mount.lustre(8), mount.objectivefs ("env=" is a folder of variables). Whoever writes connection files may name them. */
const ofFiles: ReadonlySet<string> = new Set(["credentials", "cred", "skpath", "env"]);

const nameOf = (flag: string): string => (flag.split("=")[0] ?? "").trim().toLowerCase();

const isRefused = (name: string): boolean =>
  ofOtherMounts.has(name) || ofOtherDevices.has(name) || ofLibmount.test(name);

/**
 * Throws "invalid-argument", naming the option, for mount flags that would reach beyond the volume. `given` are flags of classes,
 * PersistentVolumes and secrets, `ofNode` those of the files that the node's administrator writes.
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
    ? "it names a file of the node; put what it holds into the node-stage secret"
    : "it would mount something else than the volume, or change another mount";
  throw new CsiError("invalid-argument", `volume "${volumeId}": the mount option "${bad}" is not allowed: ${why}`);
}
