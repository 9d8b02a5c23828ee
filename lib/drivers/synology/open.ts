import type { Identity } from "../module.ts";
import { leasedDsm } from "./clients.ts";
import { LunNames } from "./names.ts";
import { San } from "./san.ts";
import { type HttpConnection, serverOf } from "./server.ts";
import { LunSpace, ownerOf } from "./space.ts";
import { LunStore } from "./store.ts";
import { type Portals, TargetShare } from "./target-share.ts";
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

/** The LUNs and targets of a connection. Does no I/O. */
export function openIscsi(identity: Identity, { httpConnection, synology, iscsi }: IscsiConfig) {
  const naming = { baseiqn: iscsi.baseiqn, prefix: iscsi.namePrefix, suffix: iscsi.nameSuffix };
  const names = new LunNames(naming, ownerOf(identity), identity.maxIdBytes);
  const san = new San(leasedDsm(serverOf(httpConnection), identity.connection));
  const location = `/${(synology?.volume ?? usualVolume).replace(/^\//, "")}`;
  const space = new LunSpace(identity, san, names, location);
  const templates = { identity, fixed: iscsi };
  const portals: Portals = {
    portal: iscsi.targetPortal,
    portals: iscsi.targetPortals.filter(each => each !== ""),
    interface: iscsi.interface,
  };
  return { store: new LunStore(space, templates), share: new TargetShare(space, templates, portals) };
}
