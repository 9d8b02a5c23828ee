import { record } from "../../schema/parts.ts";
import { type DriverModule, driverModule } from "../module.ts";

const schema = record({});

/** Volumes that people describe in PersistentVolumes by hand: nodes attach them, nothing is created, no keys of its own. */
export const nodeManual: readonly DriverModule[] = [driverModule({ names: ["node-manual"], schema: () => schema })];
