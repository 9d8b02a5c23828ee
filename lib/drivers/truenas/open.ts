import type { Protocol } from "../../core/access.ts";
import type { Driver } from "../driver.ts";
import type { ConnectionIdentity, DriverPorts } from "../module.ts";
import type { ShareProtocol } from "../store.ts";
import { StoreDriver } from "../store-driver.ts";
import { cliOf, type StoreSection, storeOn } from "../zfs/open.ts";
import type { FilesystemSettings, ZvolSettings } from "../zfs/storage.ts";
import type { ZfsVolume } from "../zfs/volume.ts";
import { leasedApi } from "./api.ts";
import { type ApiUse, withRequiredVersion } from "./requirements.ts";
import { type HttpConnection, serverOf } from "./server.ts";
import { noteKeys, type ShareContext } from "./shares/share.ts";
import { ZfsApi } from "./zfs/zfs-api.ts";

type Ssh = Parameters<typeof cliOf>[1];

/** The sections of a connection file that do not depend on the protocol. */
export interface TrueNasConfig {
  readonly httpConnection: HttpConnection;
  readonly sshConnection?: Ssh;
  readonly zfs: StoreSection & Parameters<typeof cliOf>[0];
}

/** How a driver shares its volumes. */
export interface ShareKind {
  readonly protocol: Extract<Protocol, "nfs" | "smb" | "iscsi" | "nvmeof">;
  readonly volumes: FilesystemSettings | ZvolSettings;
  share(context: ShareContext): ShareProtocol<ZfsVolume>;
}

/** A driver whose volumes TrueNAS shares: it manages datasets over ssh if the file has sshConnection, else over the API. Does no I/O. */
export function openTrueNas(
  identity: ConnectionIdentity,
  config: TrueNasConfig,
  kind: ShareKind,
  ports: DriverPorts,
): Driver {
  const use: ApiUse = {
    protocol: kind.protocol,
    datasets: config.sshConnection === undefined,
    permissions: kind.volumes.type === "filesystem" && kind.volumes.permissions !== undefined,
  };
  const { connection, driver } = identity;
  const lease = leasedApi(serverOf(config.httpConnection), connection);
  const api = withRequiredVersion(lease.api, use, identity);
  const server = new ZfsApi(api, kind.protocol === "smb" ? "SMB" : "GENERIC");
  // TrueNAS resizes zvols: it announces a new size to initiators only if it made the change.
  const overSsh = config.sshConnection && cliOf(config.zfs, config.sshConnection, ports, server);
  const zfs = overSsh?.zfs ?? server;
  const close = async () => {
    await Promise.all([lease.release(), overSsh?.close()]);
  };
  const sharing = { protocol: kind.protocol, noteKeys: noteKeys[kind.protocol] };
  const store = storeOn(zfs, identity, config.zfs, kind.volumes, sharing, close);
  return new StoreDriver(identity, store, kind.share({ api, connection, driver, use }));
}
