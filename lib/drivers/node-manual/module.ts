import type { Access } from "../../core/access.ts";
import { record } from "../../schema/parts.ts";
import { factsOf } from "../facts.ts";
import { type DriverModule, driverModule } from "../module.ts";

const schema = record({});

/** Each volume names its protocol itself, so anything may be asked of it. */
const access: Access = { kinds: ["mount", "block"], filesystems: "any", sharedWriters: true };

/** Volumes that people describe in PersistentVolumes by hand: nodes attach them, nothing is created, no keys of its own. */
export const nodeManual: readonly DriverModule[] = [
  driverModule({
    names: ["node-manual"],
    facts: {
      ...factsOf("hostpath", "node-manual"),
      protocol: undefined,
      access,
      provisions: false,
      expands: false,
    },
    schema,
  }),
];
