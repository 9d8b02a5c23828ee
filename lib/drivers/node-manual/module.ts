import { record } from "../../schema/parts.ts";
import { factsOf } from "../facts.ts";
import { type DriverModule, driverModule } from "../module.ts";
import { access, ManualDriver } from "./driver.ts";

const schema = record({});

/** Volumes described by hand in PersistentVolumes: nodes attach them, nothing is created, and the file has no section. */
export const nodeManual: readonly DriverModule[] = [
  driverModule({
    names: ["node-manual"],
    facts: {
      ...factsOf("hostpath", "node-manual"),
      protocol: undefined,
      access,
      provisions: false,
      expands: false,
      unprivileged: "always",
    },
    schema,
    open: identity => new ManualDriver(identity),
  }),
];
