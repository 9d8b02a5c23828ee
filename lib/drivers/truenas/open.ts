import type { Protocol } from "../../core/access.ts";
import type { SshSettings } from "../../io/ssh/settings.ts";
import type { Driver } from "../driver.ts";
import type { ConnectionIdentity, DriverPorts } from "../module.ts";
import type { ShareProtocol } from "../store.ts";
import { StoreDriver } from "../store-driver.ts";
import { cliOf, type StoreSection, storeOn } from "../zfs/open.ts";
import type { CopyTools, FilesystemSettings, ZvolSettings } from "../zfs/storage.ts";
import type { ZfsVolume } from "../zfs/volume.ts";
import { leasedApi } from "./api.ts";
import { type ApiUse, withRequiredVersion } from "./requirements.ts";
import { type HttpConnection, serverOf } from "./server.ts";
import { noteKeys, type ShareContext } from "./shares/share.ts";
import { ofServer } from "./zfs/values.ts";
import { ZfsApi } from "./zfs/zfs-api.ts";

/** The sections of a connection file that do not depend on the protocol. */
export interface TrueNasConfig {
  readonly httpConnection: HttpConnection;
  readonly sshConnection?: SshSettings | undefined;
  readonly zfs: StoreSection & Parameters<typeof cliOf>[0];
}

/** How a driver shares its volumes. */
export interface ShareKind {
  readonly protocol: Extract<Protocol, "nfs" | "smb" | "iscsi" | "nvmeof">;
  readonly volumes: FilesystemSettings | ZvolSettings;
  /** As ApiUse.auxiliary. */
  readonly auxiliary?: boolean;
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
    auxiliary: kind.auxiliary === true,
  };
  const { connection, driver } = identity;
  const lease = leasedApi(serverOf(config.httpConnection), connection);
  const api = withRequiredVersion(lease.api, use, identity);
  const server = new ZfsApi(api, kind.protocol === "smb" ? "SMB" : "GENERIC");
  // TrueNAS resizes zvols: it announces a new size to initiators only if it made the change.
  const overSsh = config.sshConnection && cliOf(config.zfs, config.sshConnection, ports, server);
  const zfs = overSsh?.zfs ?? server;
  const copying = overSsh
    ? { tools: overSsh.tools, close: overSsh.close }
    : copyTools(config, identity, ports, server, kind.protocol);
  const close = async () => {
    await Promise.all([lease.release(), copying?.close()]);
  };
  const sharing = { protocol: kind.protocol, noteKeys: noteKeys[kind.protocol] };
  const section = overSsh ? config.zfs : apiSection(config.zfs, kind.protocol);
  const { volumes } = kind;
  const store = storeOn(zfs, identity, section, { volumes, sharing, close, tools: copying?.tools });
  return new StoreDriver(identity, store, kind.share({ api, connection, driver, use }));
}

/** What the API sets on a new dataset for SMB (plugins/pool_/dataset.py of TS-24.10.2.4 to TS-25.10.6, share_type). */
const smbLists = { acltype: "nfsv4", aclmode: "restricted" } as const;
const smbValues = { ...smbLists, casesensitivity: "insensitive", aclinherit: "passthrough" } as const;

/**
 * Without the properties that volumes made over the API never get: copies would bring them by zfs(8). For SMB with those that the API
 * sets only on a new dataset, so that clones and copies have them, too.
 */
function apiSection(section: TrueNasConfig["zfs"], protocol: ShareKind["protocol"]): TrueNasConfig["zfs"] {
  const { datasetProperties = {} } = section;
  const kept = Object.entries(datasetProperties).filter(([name]) => !ofServer.has(name));
  const lists = protocol === "smb" ? smbLists : {};
  return { ...section, datasetProperties: { ...lists, ...Object.fromEntries(kept) } };
}

/** zfs(8) over `copies.sshConnection`, for a connection that does everything else over the API. Opened when it is first used. */
function copyTools(
  { zfs: section }: TrueNasConfig,
  { copySsh }: ConnectionIdentity,
  ports: DriverPorts,
  server: ZfsApi,
  protocol: ShareKind["protocol"],
): { readonly tools: () => CopyTools; close(): Promise<void> } | undefined {
  if (!copySsh) return undefined;
  const made = protocol === "smb" ? smbValues : undefined;
  let opened: ReturnType<typeof cliOf> | undefined;
  return {
    tools() {
      opened ??= cliOf(section, copySsh, ports, server);
      return { ...opened.tools(), made };
    },
    close: async () => opened?.close(),
  };
}
