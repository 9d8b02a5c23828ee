import type { Access } from "./access.ts";

/** A volume that is mounted directly: no file system is created, and several nodes may write. */
const shared = (...filesystems: readonly string[]): Access => ({ kinds: ["mount"], filesystems, sharedWriters: true });

/** File systems that a node can create on a block volume. */
export const blockFilesystems = ["ext3", "ext4", "ext4dev", "xfs", "btrfs", "vfat", "exfat", "ntfs"] as const;

/** A volume that appears as a disk on nodes. */
export const disk: Access = { kinds: ["mount", "block"], filesystems: blockFilesystems, sharedWriters: false };

/**
 * The attach protocols, by the value of `node_attach_driver` in the volume context, and the uses that each supports.
 * `zfs-local` is a dataset or a disk, depending on the driver.
 */
export const protocols = {
  nfs: shared("nfs"),
  smb: shared("cifs"),
  lustre: shared("lustre"),
  iscsi: disk,
  nvmeof: disk,
  hostpath: { kinds: ["mount"], filesystems: "any", sharedWriters: true },
  "zfs-local": { kinds: ["mount", "block"], filesystems: ["zfs", ...blockFilesystems], sharedWriters: true },
  objectivefs: shared("objectivefs", "fuse.objectivefs"),
  oneclient: shared("oneclient", "fuse.oneclient"),
} as const satisfies Readonly<Record<string, Access>>;

/** The name of a protocol. */
export type Protocol = keyof typeof protocols;
