import type { Protocol } from "../../core/access.ts";
import type { Driver } from "../driver.ts";
import type { ConnectionIdentity, DriverPorts } from "../module.ts";
import type { ShareProtocol } from "../store.ts";
import { StoreDriver } from "../store-driver.ts";
import { cliOf, type StoreSection, storeOn } from "../zfs/open.ts";
import type { FilesystemSettings, ZvolSettings } from "../zfs/storage.ts";
import { leasedApi } from "./clients.ts";
import { requirementOf, withRequirement } from "./required-version.ts";
import { type HttpConnection, serverOf } from "./server.ts";
import { noteKeys, type ShareContext, type SharedDataset } from "./shares/share.ts";
import { withApiResize } from "./zfs/api-resize.ts";
import { ZfsApi } from "./zfs/zfs-api.ts";

type Ssh = Parameters<typeof cliOf>[1];

/** What a connection file says, whatever the protocol. */
export interface TrueNasConfig {
  readonly httpConnection: HttpConnection;
  readonly sshConnection?: Ssh;
  readonly zfs: StoreSection & Parameters<typeof cliOf>[0];
}

/** What differs between the four ways to share. */
export interface ShareKind {
  readonly protocol: Extract<Protocol, "nfs" | "smb" | "iscsi" | "nvmeof">;
  readonly volumes: FilesystemSettings | ZvolSettings;
  share(site: ShareContext): ShareProtocol<SharedDataset>;
}

/** A driver whose volumes TrueNAS shares: datasets through its API, or over ssh where the file names a way. Does no I/O. */
export function openTrueNas(
  identity: ConnectionIdentity,
  config: TrueNasConfig,
  way: ShareKind,
  ports: DriverPorts,
): Driver {
  const lease = leasedApi(serverOf(config.httpConnection), identity.connection);
  const requirement = requirementOf(identity.driver, way.protocol, config.sshConnection !== undefined);
  const served = withRequirement(lease.api, requirement, identity);
  const site: ShareContext = {
    api: served,
    connection: identity.connection,
    driver: identity.driver,
    use: {
      protocol: way.protocol,
      datasets: config.sshConnection === undefined,
      permissions: way.volumes.type === "filesystem" && way.volumes.permissions !== undefined,
    },
  };
  const api = new ZfsApi(served, way.protocol === "smb" ? "SMB" : "GENERIC");
  const overSsh = config.sshConnection === undefined ? undefined : cliOf(config.zfs, config.sshConnection, ports);
  const zfs = overSsh ? withApiResize(overSsh.zfs, api) : api;
  const close = async () => {
    lease.release();
    await overSsh?.close();
  };
  const sharing = { protocol: way.protocol, noteKeys: noteKeys[way.protocol] };
  const store = storeOn(zfs, identity, config.zfs, way.volumes, sharing, close);
  return new StoreDriver(identity, store, way.share(site));
}
