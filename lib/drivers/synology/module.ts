import { factsOf } from "../facts.ts";
import { type DriverModule, driverModule } from "../module.ts";
import { synologyIscsiSchema } from "./schema.ts";

const onlyIscsi = 'use "synology-iscsi", or mount the share where csimux runs and use a driver for mounted shares';

/** LUNs of a Synology system. Files are checked; nothing can be opened yet. */
export const synology: readonly DriverModule[] = [
  driverModule({
    names: ["synology-iscsi"],
    facts: factsOf("iscsi", "synology-iscsi", {
      parameters: { volume: ["lunTemplate", "targetTemplate"], snapshot: ["lunSnapshotTemplate"] },
    }),
    schema: synologyIscsiSchema,
    refused: {
      "synology-nfs": ['"synology-nfs" answers no call in democratic-csi either', onlyIscsi],
      "synology-smb": ['"synology-smb" answers no call in democratic-csi either', onlyIscsi],
    },
  }),
];
