import type { Protocol } from "../../core/protocols.ts";
import type { Driver } from "../driver.ts";
import type { Identity, Ports } from "../module.ts";
import type { Share } from "../store.ts";
import { StoreDriver } from "../store-driver.ts";
import { cliOf, type StoreSection, storeOn } from "../zfs/open.ts";
import type { FilesystemSettings, VolumeSettings } from "../zfs/settings.ts";
import { leasedApi } from "./clients.ts";
import { scaleOnly } from "./scale-only.ts";
import { type HttpConnection, serverOf } from "./server.ts";
import { noteKeys, type Shareable, type Site } from "./shares/share.ts";
import { grownByServer } from "./zfs/grown-by-server.ts";
import { ZfsApi } from "./zfs/zfs-api.ts";

type Ssh = Parameters<typeof cliOf>[1];

/** What a connection file says, whatever the protocol. */
export interface TrueNasConfig {
  readonly httpConnection: HttpConnection;
  readonly sshConnection?: Ssh;
  readonly zfs: StoreSection & Parameters<typeof cliOf>[0];
}

/** What differs between the four ways to share. */
export interface Way {
  readonly protocol: Extract<Protocol, "nfs" | "smb" | "iscsi" | "nvmeof">;
  readonly volumes: FilesystemSettings | VolumeSettings;
  share(site: Site): Share<Shareable>;
}

/** A driver whose volumes TrueNAS shares: datasets through its API, or over ssh where the file names a way. Does no I/O. */
export function openTrueNas(identity: Identity, config: TrueNasConfig, way: Way, ports: Ports): Driver {
  const lease = leasedApi(serverOf(config.httpConnection), identity.connection);
  const served = config.sshConnection === undefined ? scaleOnly(lease.api, identity) : lease.api;
  const site: Site = {
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
  const zfs = overSsh ? grownByServer(overSsh.zfs, api) : api;
  const close = async () => {
    lease.release();
    await overSsh?.close();
  };
  const sharing = { protocol: way.protocol, noteKeys: noteKeys[way.protocol] };
  const store = storeOn(zfs, identity, config.zfs, way.volumes, sharing, close);
  return new StoreDriver(identity, store, way.share(site));
}
