import type { ConnectionIdentity } from "../module.ts";
import { leasedDsm } from "./clients.ts";
import { FolderContext } from "./folder-context.ts";
import { FolderStore } from "./folder-store.ts";
import { Folders } from "./folders.ts";
import { LunContext, ownersOf } from "./lun-context.ts";
import { LunNames } from "./names.ts";
import { San } from "./san.ts";
import { type HttpConnection, serverOf } from "./server.ts";
import { LunStore } from "./store.ts";
import { LunTargets, type Portals } from "./target-share.ts";
import type { TemplateName } from "./templates.ts";

/** The sections of a connection file, as they are after their check. */
export interface IscsiConfig {
  readonly httpConnection: HttpConnection;
  readonly synology?: { readonly volume: string } | undefined;
  readonly iscsi: Readonly<Partial<Record<TemplateName, unknown>>> & {
    readonly targetPortal: string;
    readonly targetPortals: readonly string[];
    readonly interface: string;
    readonly baseiqn: string;
    readonly namePrefix: string;
    readonly nameSuffix: string;
  };
}

const usualVolume = "volume1";

/** Where volumes are made; old files leave the "/" out. */
const locationOf = (synology: { readonly volume: string } | undefined): string =>
  `/${(synology?.volume ?? usualVolume).replace(/^\//, "")}`;

/** The LUNs and targets of a connection. Does no I/O. */
export function openIscsi(identity: ConnectionIdentity, { httpConnection, synology, iscsi }: IscsiConfig) {
  const naming = { baseiqn: iscsi.baseiqn, prefix: iscsi.namePrefix, suffix: iscsi.nameSuffix };
  const names = new LunNames(naming, ownersOf(identity), identity.maxIdBytes);
  const san = new San(leasedDsm(serverOf(httpConnection), identity.connection));
  const space = new LunContext(identity, san, names, locationOf(synology));
  const templates = { identity, fixed: iscsi };
  const portals: Portals = {
    portal: iscsi.targetPortal,
    portals: iscsi.targetPortals.filter(each => each !== ""),
    interface: iscsi.interface,
  };
  return { store: new LunStore(space, templates), share: new LunTargets(space, templates, portals) };
}

/** The sections of shared folders, whatever protocol they are shared by. */
export type FolderConfig = Pick<IscsiConfig, "httpConnection" | "synology">;

/** The shared folders of a connection. Does no I/O. */
export function openFolders(identity: ConnectionIdentity, { httpConnection, synology }: FolderConfig, prefix: string) {
  const folders = new Folders(leasedDsm(serverOf(httpConnection), identity.connection));
  const space = new FolderContext(identity, folders, prefix, locationOf(synology));
  return { space, store: new FolderStore(space) };
}
