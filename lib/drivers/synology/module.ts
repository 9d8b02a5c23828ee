import { factsOf } from "../facts.ts";
import { type DriverModule, driverModule } from "../module.ts";
import { StoreDriver } from "../store-driver.ts";
import { openIscsi } from "./open.ts";
import { synologyIscsiSchema } from "./schema.ts";

const onlyIscsi = 'use "synology-iscsi", or mount the share where csimux runs and use a driver for mounted shares';

/** LUNs of a Synology system. */
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
    refused: {
      "synology-nfs": ['"synology-nfs" answers no call in democratic-csi either', onlyIscsi],
      "synology-smb": ['"synology-smb" answers no call in democratic-csi either', onlyIscsi],
    },
  }),
];
