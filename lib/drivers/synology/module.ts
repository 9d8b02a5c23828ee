import { factsOf } from "../facts.ts";
import { type ConnectionIdentity, type DriverModule, driverModule } from "../module.ts";
import { StoreDriver } from "../store-driver.ts";
import { type DsmConnection, leasedDsm, serverOf } from "./client.ts";
import { nfsFolders, smbFolders } from "./folder-share.ts";
import { folderSnapshots } from "./folder-snapshots.ts";
import { lunSnapshots } from "./lun-snapshots.ts";
import { Luns } from "./luns.ts";
import { synologyIscsiSchema, synologyNfsSchema, synologySmbSchema } from "./schema.ts";
import { SharedFolders } from "./shared-folders.ts";
import { unitStore } from "./store.ts";
import { lunTargets, type Portals } from "./target-share.ts";
import type { TemplateName } from "./templates.ts";
import { UnitPlace, type words } from "./unit.ts";

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

/** The sections common to all protocols. */
export type PlaceConfig = Pick<IscsiConfig, "httpConnection" | "synology">;

function placeOf(identity: ConnectionIdentity, { httpConnection, synology }: PlaceConfig, kind: keyof typeof words) {
  const dsm = leasedDsm(serverOf(httpConnection), identity.connection);
  return new UnitPlace(identity, dsm, locationOf(synology), kind);
}

/** The LUNs and targets of a connection. Does no I/O. */
export function openIscsi(identity: ConnectionIdentity, config: IscsiConfig) {
  const { iscsi } = config;
  const naming = { baseiqn: iscsi.baseiqn, prefix: iscsi.namePrefix, suffix: iscsi.nameSuffix };
  const luns = new Luns(identity, placeOf(identity, config, "lun"), naming, { identity, fixed: iscsi });
  const portals: Portals = {
    portal: iscsi.targetPortal,
    portals: iscsi.targetPortals.filter(each => each !== ""),
    interface: iscsi.interface,
  };
  return { store: unitStore(luns, lunSnapshots(luns, identity)), share: lunTargets(luns, portals) };
}

/** The shared folders of a connection. Does no I/O. */
export function openFolders(identity: ConnectionIdentity, config: PlaceConfig, prefix: string) {
  const context = new SharedFolders(identity, placeOf(identity, config, "folder"), prefix);
  return { context, store: unitStore(context, folderSnapshots(context)) };
}

/**
 * The drivers for Synology systems. `client.ts` talks to DSM, `san.ts` and `folders.ts` know its requests. The store (`store.ts`,
 * `snapshots.ts`) is the same for LUNs and shared folders; `unit.ts` says in what those differ, `luns.ts` and `shared-folders.ts` how.
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
