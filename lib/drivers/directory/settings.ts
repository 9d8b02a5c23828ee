import type { KopiaSettings } from "./kopia.ts";
import type { ResticSettings } from "./restic.ts";

/** The drivers of this family; the values of `driver:`. */
export type DirectoryKind = "local-hostpath" | "nfs-client" | "smb-client" | "lustre-client";

/** What a directory driver needs of its section of the connection file, checked and with defaults filled in. */
export interface DirectorySettings {
  /** The server that nodes mount from; undefined for local-hostpath, which has none. */
  readonly shareHost: string | undefined;
  /** The base folder as nodes see it. */
  readonly shareBasePath: string;
  /** The same folder as this process sees it: an absolute path. */
  readonly controllerBasePath: string;
  /** Permission bits of a new volume's root, for example 0o770; undefined leaves 0755 less the umask. */
  readonly mode: number | undefined;
  /** Owner of a new volume's root: a number, or a name of this system's /etc/passwd. 0 is a value. */
  readonly user: number | string | undefined;
  /** Group of a new volume's root: a number, or a name of this system's /etc/group. 0 is a value. */
  readonly group: number | string | undefined;
  /** Refuse to work while the base folder is not on a file system of the driver's own type (nfs, smb, lustre). */
  readonly requireMount: boolean;
  /** `snapshots.default_driver`. */
  readonly snapshotDriver: string;
  /** `snapshots.restic` and `snapshots.kopia`; undefined where no snapshot is kept so. */
  readonly restic: ResticSettings | undefined;
  readonly kopia: KopiaSettings | undefined;
}
