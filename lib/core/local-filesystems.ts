/**
 * File systems that answer from memory or a local disk without waiting for a network: their names as in mountinfo, and
 * their magic numbers (statfs(2), linux/magic.h). Any other (network, FUSE, unknown) may never answer. ZFS is not
 * listed: a suspended pool blocks every caller until it is repaired (zpoolprops(7), "failmode").
 */
const local: readonly (readonly [magic: number, ...names: readonly string[]])[] = [
  [0xef53, "ext2", "ext3", "ext4"],
  [0x58465342, "xfs"],
  [0x9123683e, "btrfs"],
  [0xca451a4e, "bcachefs"],
  [0xf2f52010, "f2fs"],
  [0x01021994, "tmpfs"],
  [0x4d44, "vfat"],
];

const names: ReadonlySet<string> = new Set(local.flatMap(([, ...all]) => all));
const magics: ReadonlySet<number> = new Set(local.map(([magic]) => magic));

/** Whether the file system with this name answers without a network. */
export const isLocalName = (fsType: string): boolean => names.has(fsType);

/** Whether the file system with this magic number answers without a network. */
export const isLocalMagic = (magic: number): boolean => magics.has(magic);
