import { type Access, type Protocol, protocols } from "../../core/access.ts";
import type { Context } from "../driver.ts";
import type { KopiaSettings } from "./backups/kopia.ts";
import type { ResticSettings } from "./backups/restic.ts";

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

/** What tells the drivers of this family apart. */
export interface DirectoryDriver {
  readonly protocol: Protocol;
  readonly access: Access;
  /** Magic numbers of the file system that the base folder must be on (statfs(2), linux/magic.h); undefined: any. */
  readonly mountTypes: readonly number[] | undefined;
  /** The keys of the volume context that lead a node to `path`, a folder of the share. */
  context(host: string, path: string): Context;
  /** The folder is on this machine and exists on no other node. */
  readonly local: boolean;
}

const nfsMagic = 0x6969;
const smbMagics = [0x517b, 0xff534d42, 0xfe534d42];
const lustreMagic = 0x0bd00bd0;

const served = (protocol: Protocol, mountTypes: readonly number[]): DirectoryDriver => ({
  protocol,
  access: protocols[protocol],
  mountTypes,
  context: (server, share) => ({ server, share }),
  local: false,
});

export const kinds: Readonly<Record<DirectoryKind, DirectoryDriver>> = {
  "local-hostpath": {
    protocol: "hostpath",
    access: protocols.hostpath,
    mountTypes: undefined,
    context: (_host, path) => ({ path }),
    local: true,
  },
  "nfs-client": served("nfs", [nfsMagic]),
  "smb-client": {
    ...served("smb", smbMagics),
    // A share of SMB is a name, not a path: //server/share.
    context: (server, share) => ({ server, share: share.replace(/^\/+/, "") }),
  },
  "lustre-client": served("lustre", [lustreMagic]),
};
