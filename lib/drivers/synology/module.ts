import { factsOf } from "../facts.ts";
import { type DriverModule, driverModule } from "../module.ts";
import { StoreDriver } from "../store-driver.ts";
import { NfsFolders, SmbFolders } from "./folder-share.ts";
import { openFolders, openIscsi } from "./open.ts";
import { synologyIscsiSchema, synologyNfsSchema, synologySmbSchema } from "./schema.ts";

/** LUNs and shared folders of a Synology system. */
export const synology: readonly DriverModule[] = [
  driverModule({
    names: ["synology-iscsi"],
    facts: factsOf("iscsi", "synology-iscsi", {
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
    facts: factsOf("nfs", "synology-nfs", { snapshotsNameVolume: true }),
    schema: synologyNfsSchema,
    open(identity, config) {
      const { shareHost: server, namePrefix, allowedHosts: hosts, squash } = config.nfs;
      const { space, store } = openFolders(identity, config, namePrefix);
      return new StoreDriver(identity, store, new NfsFolders(space, { server, hosts, squash }));
    },
  }),
  driverModule({
    names: ["synology-smb"],
    facts: factsOf("smb", "synology-smb", { snapshotsNameVolume: true }),
    schema: synologySmbSchema,
    open(identity, config) {
      const { shareHost: server, namePrefix, users, groups } = config.smb;
      const { space, store } = openFolders(identity, config, namePrefix);
      return new StoreDriver(identity, store, new SmbFolders(space, { server, users, groups }));
    },
  }),
];
