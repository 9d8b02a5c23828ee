/** A share of a server that csimux mounts for its own use. */
export interface ShareSettings {
  /** As `node_attach_driver` names it: "nfs", "smb", "lustre". */
  readonly protocol: string;
  /** The keys of a volume context that lead a node to the share. */
  readonly context: Readonly<Record<string, string>>;
  /** Flags of the mount; may hold credentials. */
  readonly mountFlags: readonly string[];
}

/** Where such a share is mounted: below a folder of csimux, seen by nobody else. */
export interface SharePoint {
  /**
   * The folder, mounted when it was not. Throws CsiError as mounting does: "unavailable" and "deadline-exceeded" for a server that
   * does not answer, "permission-denied", "not-found", "failed-precondition".
   */
  folder(signal: AbortSignal): Promise<string>;
  /** As `folder`, for a mount that its server no longer knows: it is mounted anew. */
  renew(signal: AbortSignal): Promise<string>;
}
