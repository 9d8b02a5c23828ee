import { factsOf } from "../facts.ts";
import { type ConnectionIdentity, type DriverModule, driverModule } from "../module.ts";
import { StoreDriver } from "../store-driver.ts";
import { type DsmConnection, leasedDsm, serverOf } from "./client.ts";
import { FolderContext, LunContext, ownersOf } from "./contexts.ts";
import { nfsFolders, smbFolders } from "./folder-share.ts";
import { folderStore } from "./folder-store.ts";
import { Folders } from "./folders.ts";
import { LunNames } from "./names.ts";
import { San } from "./san.ts";
import { synologyIscsiSchema, synologyNfsSchema, synologySmbSchema } from "./schema.ts";
import { lunStore } from "./store.ts";
import { lunTargets, type Portals } from "./target-share.ts";
import type { TemplateName } from "./templates.ts";

/** The sections of a connection file after validation. */
export interface IscsiConfig {
  readonly httpConnection: DsmConnection;
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

/** The volume of DSM; old files omit the "/". */
const locationOf = (synology: { readonly volume: string } | undefined): string =>
  `/${(synology?.volume ?? "volume1").replace(/^\//, "")}`;

/** The LUNs and targets of a connection. Does no I/O. */
export function openIscsi(identity: ConnectionIdentity, { httpConnection, synology, iscsi }: IscsiConfig) {
  const naming = { baseiqn: iscsi.baseiqn, prefix: iscsi.namePrefix, suffix: iscsi.nameSuffix };
  const names = new LunNames(naming, ownersOf(identity), identity.maxIdBytes);
  const san = new San(leasedDsm(serverOf(httpConnection), identity.connection));
  const context = new LunContext(identity, san, names, locationOf(synology));
  const templates = { identity, fixed: iscsi };
  const portals: Portals = {
    portal: iscsi.targetPortal,
    portals: iscsi.targetPortals.filter(each => each !== ""),
    interface: iscsi.interface,
  };
  return { store: lunStore(context, templates), share: lunTargets(context, templates, portals) };
}

/** The sections common to all protocols of shared folders. */
export type FolderConfig = Pick<IscsiConfig, "httpConnection" | "synology">;

/** The shared folders of a connection. Does no I/O. */
export function openFolders(identity: ConnectionIdentity, { httpConnection, synology }: FolderConfig, prefix: string) {
  const folders = new Folders(leasedDsm(serverOf(httpConnection), identity.connection));
  const context = new FolderContext(identity, folders, prefix, locationOf(synology));
  return { context, store: folderStore(context) };
}

/**
 * The drivers for Synology systems. `client.ts` talks to DSM, `san.ts` and `folders.ts` know its requests; the stores and
 * shares for LUNs (`store.ts`, `target-share.ts`) and shared folders (`folder-*.ts`) are built on them.
 */
export const synology: readonly DriverModule[] = [
  driverModule({
    names: ["synology-iscsi"],
    facts: factsOf("iscsi", "synology-iscsi", {
      unprivileged: "always",
      parameters: { volume: ["lunTemplate", "targetTemplate"], snapshot: ["lunSnapshotTemplate"] },
    }),
    schema: synologyIscsiSchema,
    open(identity, config) {
      const { store, share } = openIscsi(identity, config);
      return new StoreDriver(identity, store, share);
    },
  }),
  driverModule({
    names: ["synology-nfs"],
    facts: factsOf("nfs", "synology-nfs", { unprivileged: "always" }),
    schema: synologyNfsSchema,
    open(identity, config) {
      const { shareHost: server, namePrefix, allowedHosts: hosts, squash } = config.nfs;
      const { context, store } = openFolders(identity, config, namePrefix);
      return new StoreDriver(identity, store, nfsFolders(context, { server, hosts, squash }));
    },
  }),
  driverModule({
    names: ["synology-smb"],
    facts: factsOf("smb", "synology-smb", { unprivileged: "always" }),
    schema: synologySmbSchema,
    open(identity, config) {
      const { shareHost: server, namePrefix, users, groups } = config.smb;
      const { context, store } = openFolders(identity, config, namePrefix);
      return new StoreDriver(identity, store, smbFolders(context, { server, users, groups }));
    },
  }),
];
