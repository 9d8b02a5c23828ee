import type { Access } from "../../core/access.ts";
import type { Context, Protocol } from "../driver.ts";
import type { Identity } from "../module.ts";
import type { DirectoryKind, DirectorySettings } from "./settings.ts";

/** What tells the drivers of this family apart. */
export interface Kind {
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

const access = (filesystems: Access["filesystems"]): Access => ({
  kinds: ["mount"],
  filesystems,
  sharedWriters: true,
});

const served = (protocol: Protocol, filesystem: string, mountTypes: readonly number[]): Kind => ({
  protocol,
  access: access([filesystem]),
  mountTypes,
  context: (server, share) => ({ server, share }),
  local: false,
});

export const kinds: Readonly<Record<DirectoryKind, Kind>> = {
  "local-hostpath": {
    protocol: "hostpath",
    access: access("any"),
    mountTypes: undefined,
    context: (_host, path) => ({ path }),
    local: true,
  },
  "nfs-client": served("nfs", "nfs", [nfsMagic]),
  "smb-client": {
    ...served("smb", "cifs", smbMagics),
    // A share of SMB is a name, not a path: //server/share.
    context: (server, share) => ({ server, share: share.replace(/^\/+/, "") }),
  },
  "lustre-client": served("lustre", "lustre", [lustreMagic]),
};

/** The volume context of a volume id; the same on every answer (CSI Volume.volume_context). */
export function contextOf(kind: Kind, identity: Identity, settings: DirectorySettings, id: string): Context {
  const share = settings.shareBasePath.replace(/\/+$/, "");
  return {
    node_attach_driver: kind.protocol,
    provisioner_driver: identity.driver,
    ...(identity.instanceId !== undefined && { provisioner_driver_instance_id: identity.instanceId }),
    ...kind.context(settings.shareHost ?? "", `${share}/v/${id}`),
  };
}
