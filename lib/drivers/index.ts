import { localHostpath, lustreClient, nfsClient, smbClient } from "./directory/module.ts";
import type { DriverModule } from "./module.ts";

/** Every driver that csimux knows. Nothing registers itself; a new driver is one line here. */
export const modules: readonly DriverModule[] = [localHostpath, nfsClient, smbClient, lustreClient];
