import { CsiError } from "../../core/errors.ts";
import { hasNoDevice, type Mount } from "../../core/mountinfo.ts";
import type { Argv } from "../../io/runner.ts";
import { damaged, type MountErrorPatterns } from "../mount/mount-errors.ts";
import type { MountedFilesystem } from "../state/stage-records.ts";

/** A file system that csimux can make on a disk. Arguments lack only the device, which always comes last. */
export interface Filesystem {
  /** The type for mount(8). */
  readonly mountType: string;
  /** Makes the file system with this UUID (36 characters), or without it if the format cannot store one. */
  readonly make: (uuid: string) => Argv;
  /**
   * Features that new tools enable by default and older kernels cannot mount: option letter and name. They are disabled
   * if the tool has them and the configuration does not set them. Absent if Debian's tool has no such features.
   */
  readonly young?: readonly (readonly [option: string, feature: string])[];
  /**
   * An option of which the tool takes the last one only, and the value that must stay among those of the configuration: a discard of the
   * disk would erase the mark.
   */
  readonly joined?: { readonly option: string; readonly value: string };
  /** Additional arguments that let the tool overwrite a proven, interrupted run of itself. */
  readonly overwrite: readonly string[];
  /** How an interrupted format is recognised as csimux's own; either trace is sufficient. A complete one must lose it. */
  readonly trace: {
    /** A mark this many bytes before the end of the disk, which the tool does not overwrite. */
    readonly mark?: bigint;
    /** The UUID at this byte, while `unfinished` still holds this value. */
    readonly uuid?: { readonly at: bigint; readonly unfinished: { readonly at: bigint; readonly is: number } };
  };
  /** True if the tool writes the signature last, so that a recognised file system is complete. */
  readonly signedLast: boolean;
  /** Flags of every mount. */
  readonly flags: readonly string[];
  /** Flags of a mount that must not write anything, not even replay the journal (ext4(5), xfs(5), btrfs(5)). */
  readonly readOnlyFlags: readonly string[];
  /** Error patterns of mount(8) for this file system. */
  readonly words?: MountErrorPatterns;
  /** Whether the flag gid= sets the group of all files. */
  readonly groupFlag: boolean;
  /**
   * Checks the unmounted file system. `fixed`: the exit codes that mean that it is clean now. `undecided`: the
   * output of a tool that cannot decide before the journal is replayed, which only mounting does.
   */
  readonly check: { readonly argv: Argv; readonly fixed: readonly number[]; readonly undecided?: string };
  /** The byte of the superblock in which this bit says that the kernel has recorded errors. */
  readonly errors?: { readonly at: bigint; readonly bit: number };
  /** Grows the mounted file system to the size of its disk; absent if that is impossible. */
  readonly grow?: (device: string, mountedAt: string) => Argv;
  /** The kernel refuses to resize below this many bytes, even if the size would not change. */
  readonly growsFrom?: bigint;
}

/** A position that the tools do not clear at the end of a disk. */
const withinLastMebibyte = 512n << 10n;

/**
 * ext3 and ext4. Nothing is reserved for root (-m 0) and nothing is discarded, because the disk is known to be empty.
 * mke2fs writes the superblock last, so a disk with a superblock is complete. `e2fsck -p` makes only safe repairs; 1
 * means "corrected", 2 asks for a reboot if the file system is mounted (e2fsck(8)). s_state has EXT4_ERROR_FS after errors, and then the
 * kernel grows nothing (Linux 6.18, fs/ext4/ext4.h, and resize.c, ext4_resize_begin). After an error, ext4 accepts no more writes unless
 * the options of a class or of the node say otherwise: the last -e counts.
 */
const ext = (type: "ext3" | "ext4"): Filesystem => ({
  mountType: type,
  make: uuid => [`mkfs.${type}`, "-q", "-m", "0", "-e", "remount-ro", "-U", uuid],
  // mke2fs before 1.47.4 forgets the first of two -E (misc/mke2fs.c, PRS); of two words in one, the last one counts.
  joined: { option: "-E", value: "nodiscard" },
  overwrite: ["-F"],
  trace: { mark: withinLastMebibyte },
  signedLast: true,
  flags: [],
  readOnlyFlags: ["ro", "noload"],
  words: [damaged("e2fsck")],
  groupFlag: false,
  check: { argv: [`fsck.${type}`, "-f", "-p"], fixed: [0, 1, 2] },
  errors: { at: 1024n + 0x3an, bit: 2 },
  grow: device => ["resize2fs", device],
});

/**
 * Clones have the UUID of their source, hence nouuid. mkfs.xfs writes its superblock first, with sb_inprogress set, and
 * the kernel does not mount it while that is set. Only mounting replays the log.
 */
const xfs: Filesystem = {
  mountType: "xfs",
  make: uuid => ["mkfs.xfs", "-q", "-K", "-m", `uuid=${uuid}`],
  // They need the kernels 5.10, 5.10 and 5.19 (mkfs.xfs(8)).
  young: [
    ["-m", "bigtime"],
    ["-m", "inobtcount"],
    ["-i", "nrext64"],
  ],
  overwrite: ["-f"],
  trace: { uuid: { at: 32n, unfinished: { at: 126n, is: 1 } } },
  signedLast: true,
  flags: ["nouuid"],
  readOnlyFlags: ["ro", "norecovery"],
  words: [damaged("xfs_repair")],
  groupFlag: false,
  check: { argv: ["xfs_repair", "-n"], fixed: [0], undecided: "valuable metadata changes in a log" },
  grow: (_device, mountedAt) => ["xfs_growfs", mountedAt],
};

/**
 * mkfs.btrfs writes the valid magic number last. The UUID in its superblock proves nothing: a complete file system whose magic number
 * was erased has it as well. It clears the first and the last 2 MiB (common/device-utils.c, ZERO_DEV_BYTES), so the mark lies before
 * the last 2 MiB.
 */
const btrfs: Filesystem = {
  mountType: "btrfs",
  make: uuid => ["mkfs.btrfs", "-q", "-K", "-U", uuid],
  overwrite: ["-f"],
  trace: { mark: 3n << 20n },
  signedLast: true,
  flags: [],
  readOnlyFlags: ["ro", "rescue=nologreplay"],
  // Up to kernel 6.6 a node can mount only one disk per file system id, and a copy has the id of its source
  // (fs/btrfs/volumes.c, device_list_add).
  words: [
    damaged("btrfs check"),
    [
      /File exists/,
      "failed-precondition",
      "this node already mounts another disk with the same btrfs id, the source of a clone or another copy of it; unstage that one first, or use this volume on another node or on kernel 6.7 or newer",
    ],
  ],
  groupFlag: false,
  check: { argv: ["btrfs", "check", "--readonly"], fixed: [0] },
  grow: (_device, mountedAt) => ["btrfs", "filesystem", "resize", "max", mountedAt],
  growsFrom: 256n << 20n,
};

/** Foreign file systems. Their tools first write the boot sector, by which they are recognised. */
const foreign = {
  overwrite: [],
  trace: { mark: withinLastMebibyte },
  signedLast: false,
  flags: [],
  readOnlyFlags: ["ro"],
  groupFlag: true,
} as const;

/** The file systems by their names in blkid(8) and `fs_type`. */
export const filesystems: Readonly<Record<string, Filesystem>> = {
  ext3: ext("ext3"),
  ext4: ext("ext4"),
  xfs,
  btrfs,
  vfat: {
    ...foreign,
    mountType: "vfat",
    make: uuid => ["mkfs.vfat", "-I", "-i", uuid.slice(0, 8)],
    check: { argv: ["fsck.vfat", "-n"], fixed: [0] },
  },
  exfat: {
    ...foreign,
    mountType: "exfat",
    make: () => ["mkfs.exfat"],
    check: { argv: ["fsck.exfat", "-n"], fixed: [0] },
  },
  // -Q: quick format; otherwise mkfs.ntfs fills the whole disk with zeros. -F: accepts a disk that is not a partition.
  ntfs: {
    ...foreign,
    mountType: "ntfs3",
    make: () => ["mkfs.ntfs", "-q", "-Q", "-F"],
    check: { argv: ["ntfsfix", "-n"], fixed: [0] },
  },
};

/** The file system that mount(8) and the mount table know by this type; undefined for any other type. */
export const filesystemMountedAs = (fsType: string | undefined): Filesystem | undefined =>
  Object.values(filesystems).find(({ mountType }) => mountType === fsType);

/** The name in the table for a requested type, or one of mount(8) ("ext4dev" is an old name of ext4); undefined if it is unknown. */
export const filesystemName = (asked: string): string | undefined => {
  const wanted = asked === "ext4dev" ? "ext4" : asked;
  return Object.keys(filesystems).find(name => name === wanted || filesystems[name]?.mountType === wanted);
};

/** Whether the mount table shows a file system of the requested type; any that csimux knows if none is requested. */
export const isMountedAs = (asked: string | undefined, fsType: string): boolean =>
  filesystemMountedAs(fsType) !== undefined &&
  (asked === undefined || filesystems[filesystemName(asked) ?? ""]?.mountType === fsType);

/**
 * The file system of a disk according to its mount; undefined for any other mount. Throws "failed-precondition" where the mount does not
 * tell which disk it is, as for btrfs, whose devices have numbers of their own.
 */
export function mountedDisk(volumeId: string, { source, device, fsType }: Mount): MountedFilesystem | undefined {
  if (!filesystemMountedAs(fsType)) return undefined;
  if (!hasNoDevice(device)) return { source, number: device, fsType };
  const text = `volume "${volumeId}": csimux has no record of mounting its disk here, so its ${fsType} is not grown; it grows when the volume is staged again: end all pods that use the volume on this node, then start them`;
  throw new CsiError("failed-precondition", text);
}
