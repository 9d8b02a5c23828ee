/** The access modes of CSI (VolumeCapability.AccessMode). */
export const accessModes = [
  "single-node-writer",
  "single-node-reader-only",
  "multi-node-reader-only",
  "multi-node-single-writer",
  "multi-node-multi-writer",
  "single-node-single-writer",
  "single-node-multi-writer",
] as const;

/** One access mode. */
export type AccessMode = (typeof accessModes)[number];

/** One requested use of a volume (VolumeCapability). */
export interface Capability {
  readonly kind: "mount" | "block";
  /** Empty or undefined if the caller leaves the choice to the driver. Always undefined for block. */
  readonly fsType: string | undefined;
  readonly mountFlags: readonly string[];
  readonly mountGroup: string | undefined;
  readonly mode: AccessMode;
}

/** The uses that a driver's volumes support. */
export interface Access {
  readonly kinds: readonly ("mount" | "block")[];
  /** Accepted `fs_type` values; "any" if the value is ignored because no file system is created. */
  readonly filesystems: readonly string[] | "any";
  /** Whether several nodes may write to a mounted volume at once. */
  readonly sharedWriters: boolean;
  /** The only modes allowed, if the connection file restricts them (`csi.access_modes`). */
  readonly modes?: readonly AccessMode[];
}

/** Why `access` does not satisfy `wanted`, or undefined if it does. */
export function unmet(access: Access, wanted: Capability): string | undefined {
  if (!access.kinds.includes(wanted.kind)) return `access type "${wanted.kind}" is not supported`;
  if (wanted.kind === "mount" && wanted.fsType && access.filesystems !== "any") {
    if (!access.filesystems.includes(wanted.fsType)) {
      return `fs type "${wanted.fsType}" is not one of ${access.filesystems.join(", ")}`;
    }
  }
  if (access.modes && !access.modes.includes(wanted.mode))
    return `access mode ${wanted.mode} is not allowed by csi.access_modes`;
  if (wanted.mode === "multi-node-multi-writer" && wanted.kind === "mount" && !access.sharedWriters) {
    return "several nodes cannot write to this kind of volume at once";
  }
  // NodeStageVolume does not say which node is the writer, so each would mount the disk to write.
  if (wanted.mode === "multi-node-single-writer" && isOneNodes(access, wanted)) return notRead;
  return undefined;
}

/** Whether only one node at a time may mount the volume to write. */
const isOneNodes = ({ sharedWriters }: Access, { kind }: Capability): boolean => kind === "mount" && !sharedWriters;

const notRead =
  "other nodes cannot read this kind of volume while one writes to it; request one of these uses, such as ReadWriteOnce without ReadOnlyMany";

/**
 * The first reason why `access` does not satisfy all of `wanted`, or undefined if it does. Kubernetes gives a claim with ReadWriteOnce and
 * ReadOnlyMany to several nodes (IsMultiAttachAllowed), and kubelet stages it on each with the mode that is named first (MountDevice): a disk
 * would be mounted to write on all of them, and its file system destroyed.
 */
export function firstUnmet(access: Access, wanted: readonly Capability[]): string | undefined {
  const alone = wanted.map(each => unmet(access, each)).find(reason => reason !== undefined);
  const mounted = wanted.filter(each => isOneNodes(access, each));
  const isReadElsewhere = mounted.some(({ mode }) => mode === "multi-node-reader-only");
  const isWritten = mounted.some(({ mode }) => !mode.endsWith("reader-only"));
  return alone ?? (isReadElsewhere && isWritten ? notRead : undefined);
}

/** One location of a CSI topology: keys with their full prefix → values, which must all match (CSI "Topology"). */
export type Segments = Readonly<Record<string, string>>;

/** A volume that is mounted directly: no file system is created, and several nodes may write. */
const shared = (...filesystems: readonly string[]): Access => ({ kinds: ["mount"], filesystems, sharedWriters: true });

/** File systems that a node can create on a block volume. */
const blockFilesystems = ["ext3", "ext4", "ext4dev", "xfs", "btrfs", "vfat", "exfat", "ntfs"] as const;

/** The file systems of disks that no node can grow: such volumes keep their size. */
export const fixedFilesystems: readonly string[] = ["vfat", "exfat", "ntfs"];

/** The least bytes of a disk, where the tool that makes the file system has a limit (xfsprogs 5.19, mkfs/xfs_mkfs.c, validate_supported). */
export const leastBytes: Readonly<Record<string, bigint>> = { xfs: 300n << 20n };

/** The file system that nodes make if the caller requests none. */
export const defaultFilesystem = "ext4";

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

/**
 * A flag up to the next comma, or an SELinux context in quotes: commas separate its categories, as in
 * `context="system_u:object_r:container_file_t:s0:c1,c2"` (mount(8), "context"). kubelet writes it so.
 */
const mountFlag = /(?<=^|,)\s*(?:(?:fs|def|root)?context="[\w.:,-]*"(?=\s*(?:,|$))|[^,]*)/g;

/** The individual flags of a list whose entries may contain several, separated by commas. */
export const flagWords = (flags: readonly string[]): readonly string[] =>
  flags
    .flatMap(text => text.match(mountFlag) ?? [])
    .map(each => each.trim())
    .filter(each => each !== "");
