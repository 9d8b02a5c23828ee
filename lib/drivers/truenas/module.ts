import { type DriverModule, driverModule } from "../module.ts";
import {
  freenasApiIscsiSchema,
  freenasApiNfsSchema,
  freenasApiNvmeofSchema,
  freenasApiSmbSchema,
  freenasIscsiSchema,
  freenasNfsSchema,
  freenasNvmeofSchema,
  freenasSmbSchema,
} from "./schema.ts";

/** Both names of a driver: the product was FreeNAS once. */
const names = (rest: string): readonly string[] => [`freenas-${rest}`, `truenas-${rest}`];

/** TrueNAS, with ZFS over SSH or all over its API. Files are checked; nothing can be opened yet. */
export const truenas: readonly DriverModule[] = [
  driverModule({ names: names("nfs"), schema: () => freenasNfsSchema }),
  driverModule({ names: names("smb"), schema: () => freenasSmbSchema }),
  driverModule({ names: names("iscsi"), schema: () => freenasIscsiSchema }),
  driverModule({ names: names("nvmeof"), schema: () => freenasNvmeofSchema }),
  driverModule({ names: names("api-nfs"), schema: () => freenasApiNfsSchema }),
  driverModule({ names: names("api-smb"), schema: () => freenasApiSmbSchema }),
  driverModule({ names: names("api-iscsi"), schema: () => freenasApiIscsiSchema }),
  driverModule({ names: names("api-nvmeof"), schema: () => freenasApiNvmeofSchema }),
];
