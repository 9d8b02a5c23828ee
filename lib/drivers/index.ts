import { localHostpath, lustreClient, nfsClient, smbClient } from "./directory/module.ts";
import type { DriverModule } from "./module.ts";
import { nodeManual } from "./node-manual/module.ts";
import { objectivefs } from "./objectivefs/module.ts";
import { synology } from "./synology/module.ts";
import { truenas } from "./truenas/module.ts";
import { zfs } from "./zfs/module.ts";

/** Every driver that csimux knows. Nothing registers itself; a new family is one line here. */
export const modules: readonly DriverModule[] = [
  localHostpath,
  nfsClient,
  smbClient,
  lustreClient,
  ...zfs,
  ...truenas,
  ...synology,
  ...objectivefs,
  ...nodeManual,
];
