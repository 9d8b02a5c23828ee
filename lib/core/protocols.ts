import type { Access } from "./access.ts";

/** A volume that is mounted as it is: no file system is made, and several nodes may write. */
const shared = (...filesystems: readonly string[]): Access => ({ kinds: ["mount"], filesystems, sharedWriters: true });

/** File systems that a node makes on a block volume. */
export const blockFilesystems = ["ext3", "ext4", "ext4dev", "xfs", "btrfs", "vfat", "exfat", "ntfs"] as const;

/** A volume that nodes see as a disk. */
export const disk: Access = { kinds: ["mount", "block"], filesystems: blockFilesystems, sharedWriters: false };

/**
 * How nodes reach volumes, by the value of `node_attach_driver` in the volume context, and what a volume reached so can be
 * used for. `zfs-local` is a dataset or a disk; the driver says which.
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

/** One of them. */
export type Protocol = keyof typeof protocols;
