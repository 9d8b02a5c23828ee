/** A share of a server that csimux mounts for its own use. */
export interface ShareSettings {
  /** A value of `node_attach_driver`: "nfs", "smb", "lustre". */
  readonly protocol: string;
  /** The volume context keys that locate the share. */
  readonly context: Readonly<Record<string, string>>;
  /** Mount flags; may contain credentials. */
  readonly mountFlags: readonly string[];
}

/** The mount point of such a share, below a private folder of csimux. */
export interface SharePoint {
  /**
   * Returns the folder, and mounts the share first if necessary. Throws the CsiErrors of mounting: "unavailable" and
   * "deadline-exceeded" if the server does not answer, "permission-denied", "not-found", "failed-precondition".
   */
  folder(signal: AbortSignal): Promise<string>;
  /** Like `folder`, for a stale mount: unmounts and mounts it again. */
  renew(signal: AbortSignal): Promise<string>;
}
