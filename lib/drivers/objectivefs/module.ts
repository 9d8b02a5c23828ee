import { factsOf } from "../facts.ts";
import { type DriverModule, driverModule } from "../module.ts";
import { objectivefsSchema } from "./schema.ts";

/** File systems in an object store. Files are checked; nothing can be opened yet. */
export const objectivefs: readonly DriverModule[] = [
  driverModule({
    names: ["objectivefs"],
    facts: factsOf("objectivefs", "objectivefs"),
    schema: objectivefsSchema,
  }),
];
