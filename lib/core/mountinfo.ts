/** One line of /proc/self/mountinfo (proc(5)). Paths are unescaped and relative to this process's root. */
export interface Mount {
  readonly id: number;
  readonly parent: number;
  /** `major:minor` of the file system. */
  readonly device: string;
  /**
   * The folder of the file system that is mounted here; ends in "//deleted" if it was deleted. With NFS
   * "server:/folder".
   */
  readonly root: string;
  /** The mount point. */
  readonly at: string;
  /** Per-mount options such as "ro" and "nosuid", without the options of the file system. */
  readonly options: readonly string[];
  /** Whether mounts below it appear in its peer group, so in other mount namespaces (mount_namespaces(7), MS_SHARED). */
  readonly isShared: boolean;
  readonly fsType: string;
  readonly source: string;
  /** Whether the file system itself is read-only, regardless of this mount: ext4 after an error, for example. */
  readonly readOnly: boolean;
  /** Whether the table says that the kernel has shut the file system down; of XFS it does not. */
  readonly isShutDown: boolean;
}

const numbers = /^[0-9]+$/;
const device = /^[0-9]+:[0-9]+$/;

/**
 * Whether a number is not that of one device: file systems without a device have such numbers, and those with several, such as btrfs, whose
 * source then names one (Linux, admin-guide/devices.txt, major 0).
 */
export const hasNoDevice = (number: string): boolean => number.startsWith("0:");

/**
 * File systems whose mountinfo root is always "/", with the folder in the source instead (nfs_show_path,
 * nfs_show_devname).
 */
const folderInSource: ReadonlySet<string> = new Set(["nfs", "nfs4"]);

/** Unescapes a field: the kernel writes space, tab, newline, "\" and "#" as "\" and three octal digits (proc(5)). */
export const unescaped = (text: string): string =>
  text.includes("\\")
    ? text.replace(/\\([0-3][0-7]{2})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)))
    : text;

/**
 * The mounts in a mountinfo text, in its order.
 * Throws a plain Error for a line of unknown form: a mount that was skipped would count as unmounted.
 */
export const parseMountinfo = (text: string): readonly Mount[] =>
  text
    .split("\n")
    .filter(line => line !== "")
    .map(parseLine);

function parseLine(line: string): Mount {
  const words = line.split(" ");
  const [id = "", parent = "", dev = "", root = "", at = "", options = ""] = words;
  const dash = words.indexOf("-", 6);
  const fsType = words[dash + 1];
  const source = words[dash + 2];
  // ext4 has "emergency_ro" and "shutdown" (Linux 6.18, fs/ext4/super.c, _ext4_show_options).
  const ofFilesystem = words[dash + 3]?.split(",") ?? [];
  const fits = numbers.test(id) && numbers.test(parent) && device.test(dev) && at.startsWith("/");
  if (!fits || dash < 0 || fsType === undefined || source === undefined)
    throw new Error("a line of mountinfo has an unknown form");
  return {
    id: Number(id),
    parent: Number(parent),
    device: dev,
    root: unescaped(folderInSource.has(fsType) ? source : root),
    at: unescaped(at),
    options: options.split(","),
    isShared: words.slice(6, dash).some(word => word.startsWith("shared:")),
    fsType: unescaped(fsType),
    source: unescaped(source),
    readOnly: ofFilesystem[0] === "ro" || ofFilesystem.includes("emergency_ro"),
    isShutDown: ofFilesystem.includes("shutdown"),
  };
}

/**
 * File systems that answer from memory or a local disk without waiting for a network, as mountinfo names them. Any other (network, FUSE,
 * unknown) may never answer. ZFS is not listed: a suspended pool blocks every caller until it is repaired (zpoolprops(7), "failmode").
 */
const local: ReadonlySet<string> = new Set([
  "ext2",
  "ext3",
  "ext4",
  "xfs",
  "btrfs",
  "bcachefs",
  "f2fs",
  "tmpfs",
  "vfat",
]);

/** Whether the file system with this name answers without a network. */
export const isLocalName = (fsType: string): boolean => local.has(fsType);
