import type { Argv } from "../../io/runner.ts";
import type { MountErrorPatterns } from "../mount/mount-errors.ts";

/** A file system that csimux can put on a disk. Arguments are complete but for the device, which always comes last. */
export interface Filesystem {
  /** As mount(8) calls it. */
  readonly mountType: string;
  /** Makes it with this UUID (36 characters); where the format has no room for one, it is left out. */
  readonly make: (uuid: string) => Argv;
  /**
   * Features that new tools turn on by themselves and older kernels cannot mount: option letter and name. They are turned off
   * where the tool has them and nobody asked for them. Absent where Debian's tool has no such features.
   */
  readonly young?: readonly (readonly [option: string, feature: string])[];
  /** More arguments that make the tool overwrite what a proven, interrupted run of itself left. */
  readonly overwrite: readonly string[];
  /** How an interrupted making is recognised as csimux's own; one of both is enough. */
  readonly trace: {
    /** By a note so many bytes before the end of the disk, where the tool does not write. */
    readonly mark?: bigint;
    /** By its UUID at this byte, while `unfinished` (if present) still holds this value. */
    readonly uuid?: { readonly at: bigint; readonly unfinished?: { readonly at: bigint; readonly is: number } };
  };
  /** Whether the tool writes last what makes the disk recognisable, so that a recognised file system is a whole one. */
  readonly signedLast: boolean;
  /** Flags of every mount. */
  readonly flags: readonly string[];
  /** Flags of a mount that must not write a byte: not even the journal is replayed (ext4(5), xfs(5), btrfs(5)). */
  readonly readOnlyFlags: readonly string[];
  /** What mount(8) complains about. */
  readonly words?: MountErrorPatterns;
  /** Whether all files get one group by the flag gid=. */
  readonly groupFlag: boolean;
  /**
   * Looks for errors in the unmounted file system. `fixed`: the exit codes that mean that it is in order now. `undecided`: what
   * the tool says when it cannot tell before the journal is replayed, which only mounting does.
   */
  readonly check: { readonly argv: Argv; readonly fixed: readonly number[]; readonly undecided?: string };
  /** Makes the mounted file system as large as its disk; absent where that is impossible. */
  readonly grow?: (device: string, mountedAt: string) => Argv;
  /** The kernel refuses to resize to less than this many bytes, even where nothing would change. */
  readonly growsFrom?: bigint;
}

/** Out of reach of what the tools clear at the end of a disk. */
const withinLastMebibyte = 512n << 10n;

/**
 * ext3 and ext4. Nothing is kept back for root (-m 0), and nothing discarded: the disk is known to be empty. mke2fs writes the
 * superblock last, so that a disk that shows one is finished.
 * `e2fsck -p` repairs only what is safe without asking; 1 means "corrected", 2 asks for a reboot of what is mounted (e2fsck(8)).
 */
const ext = (type: "ext3" | "ext4"): Filesystem => ({
  mountType: type,
  make: uuid => [`mkfs.${type}`, "-q", "-m", "0", "-E", "nodiscard", "-U", uuid],
  overwrite: ["-F"],
  trace: { mark: withinLastMebibyte },
  signedLast: true,
  flags: [],
  readOnlyFlags: ["ro", "noload"],
  groupFlag: false,
  check: { argv: [`fsck.${type}`, "-f", "-p"], fixed: [0, 1, 2] },
  grow: device => ["resize2fs", device],
});

/**
 * Clones carry the UUID of their source, hence nouuid. mkfs.xfs writes its superblock first, with sb_inprogress set, and the
 * kernel mounts none that has it set. Its log is replayed by mounting alone.
 */
const xfs: Filesystem = {
  mountType: "xfs",
  make: uuid => ["mkfs.xfs", "-q", "-K", "-m", `uuid=${uuid}`],
  // Kernels since 5.10, 5.10 and 5.19 (mkfs.xfs(8)).
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
  groupFlag: false,
  check: { argv: ["xfs_repair", "-n"], fixed: [0], undecided: "valuable metadata changes in a log" },
  grow: (_device, mountedAt) => ["xfs_growfs", mountedAt],
};

/**
 * mkfs.btrfs writes the right magic number last; until then its superblock at 64 KiB shows the UUID without being recognised. Before
 * that it writes trees, which the mark tells from other data. It clears the first and the last 2 MiB (common/device-utils.c,
 * ZERO_DEV_BYTES), so the mark stands in front of those.
 */
const btrfs: Filesystem = {
  mountType: "btrfs",
  make: uuid => ["mkfs.btrfs", "-q", "-K", "-U", uuid],
  overwrite: ["-f"],
  trace: { mark: 3n << 20n, uuid: { at: 65_568n } },
  signedLast: true,
  flags: [],
  readOnlyFlags: ["ro", "rescue=nologreplay"],
  // Up to kernel 6.6 one node mounts one disk of a file system id, and a copy has that of its source (fs/btrfs/volumes.c, device_list_add).
  words: [
    [
      /File exists/,
      "failed-precondition",
      "another disk with the same btrfs id is mounted on this node, the source of a clone or another copy of it; unstage that one first, or use this volume on another node or on a kernel from 6.7 on",
    ],
  ],
  groupFlag: false,
  check: { argv: ["btrfs", "check", "--readonly"], fixed: [0] },
  grow: (_device, mountedAt) => ["btrfs", "filesystem", "resize", "max", mountedAt],
  growsFrom: 256n << 20n,
};

/** File systems of other worlds. Their tools write the boot sector first, by which they are recognised. */
const foreign = {
  overwrite: [],
  trace: { mark: withinLastMebibyte },
  signedLast: false,
  flags: [],
  readOnlyFlags: ["ro"],
  groupFlag: true,
} as const;

/** By the name that blkid(8) and `fs_type` give it. */
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
  // Quick: without -Q mkfs.ntfs fills the whole disk with zeros. -F: the disk is no partition.
  ntfs: {
    ...foreign,
    mountType: "ntfs3",
    make: () => ["mkfs.ntfs", "-q", "-Q", "-F"],
    check: { argv: ["ntfsfix", "-n"], fixed: [0] },
  },
};

/** What is made where the caller leaves the choice. */
export const defaultFilesystem = "ext4";

/** The name in the table for a requested one; an old name of ext4 is still in classes. Undefined when it is not in the table. */
export const filesystemName = (asked: string): string | undefined => {
  const name = asked === "ext4dev" ? "ext4" : asked;
  return Object.hasOwn(filesystems, name) ? name : undefined;
};
