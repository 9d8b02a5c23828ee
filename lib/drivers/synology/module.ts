import { factsOf } from "../facts.ts";
import { type DriverModule, driverModule } from "../module.ts";
import { synologyIscsiSchema } from "./schema.ts";

/** LUNs of a Synology system. Files are checked; nothing can be opened yet. */
export const synology: readonly DriverModule[] = [
  driverModule({
    names: ["synology-iscsi"],
    facts: factsOf("iscsi", "synology-iscsi", {
      parameters: { volume: ["lunTemplate", "targetTemplate"], snapshot: ["lunSnapshotTemplate"] },
    }),
    schema: synologyIscsiSchema,
  }),
];
