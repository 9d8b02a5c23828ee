/** Access modes of CSI (VolumeCapability.AccessMode), in words. */
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
  return undefined;
}

/** The first reason why `access` does not satisfy all of `wanted`, or undefined if it does. */
export const firstUnmet = (access: Access, wanted: readonly Capability[]): string | undefined =>
  wanted.map(each => unmet(access, each)).find(reason => reason !== undefined);
