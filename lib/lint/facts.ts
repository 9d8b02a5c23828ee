/** What validation needs to know of a driver without opening it. */
export interface DriverFacts {
  /** File systems that a class may ask for: the names, "block" for whatever mkfs makes, "any" where it is ignored. */
  readonly filesystem: "nfs" | "cifs" | "lustre" | "zfs" | "objectivefs" | "block" | "any";
  /** Volumes exist only on the node that made them. */
  readonly local: boolean;
  /** Volumes are ZFS datasets: snapshots carry the volume's name, copies may be detached. */
  readonly zfs: boolean;
  /** Volumes are folders of a share. */
  readonly directory: boolean;
  readonly expands: boolean;
  /** A controller creates volumes; otherwise people or pods describe them and only nodes are involved. */
  readonly provisions: boolean;
}

/** File systems that a node makes on a block volume. */
const blockFilesystems = ["ext3", "ext4", "ext4dev", "xfs", "btrfs", "vfat", "exfat", "ntfs"];

const endings: readonly (readonly [RegExp, DriverFacts["filesystem"]])[] = [
  [/-nfs$|^nfs-client$/, "nfs"],
  [/-smb$|^smb-client$/, "cifs"],
  [/^lustre-client$/, "lustre"],
  [/-iscsi$|-nvmeof$|-zvol$/, "block"],
  [/^zfs-local-dataset$/, "zfs"],
  [/^objectivefs$/, "objectivefs"],
];

/** The facts about a value of `driver:`. */
export function factsOf(driver: string): DriverFacts {
  const filesystem = endings.find(([pattern]) => pattern.test(driver))?.[1] ?? "any";
  const provisions = driver !== "node-manual" && driver !== "zfs-local-ephemeral-inline";
  return {
    filesystem,
    local: ["local-hostpath", "zfs-local-dataset", "zfs-local-zvol"].includes(driver),
    zfs: /^(?:zfs-|freenas-|truenas-)/.test(driver),
    directory: /-client$|^local-hostpath$/.test(driver),
    expands: provisions,
    provisions,
  };
}

/** The names that `fsType` may have, or undefined when any will do. */
export function filesystemsOf({ filesystem }: DriverFacts): readonly string[] | undefined {
  if (filesystem === "any") return undefined;
  return filesystem === "block" ? blockFilesystems : [filesystem];
}
