import { type Access, type Protocol, protocols } from "../../core/access.ts";
import type { Context } from "../driver.ts";
import type { DirectoryKind } from "./settings.ts";

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
