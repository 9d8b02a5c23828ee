import type { Protocol } from "../../core/protocols.ts";
import { type DriverFacts, factsOf } from "../facts.ts";
import { type DriverModule, driverModule } from "../module.ts";
import { zfsParameters, zfsTerritory } from "../zfs/facts.ts";
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

/** Volumes are the same whether ZFS is reached over SSH or over the API. */
const facts = (protocol: Protocol): DriverFacts =>
  factsOf(protocol, `truenas:${protocol}`, {
    snapshotsNameVolume: true,
    parameters: zfsParameters,
    territory: zfsTerritory,
  });

/** TrueNAS, with ZFS over SSH or all over its API. Files are checked; nothing can be opened yet. */
export const truenas: readonly DriverModule[] = [
  driverModule({ names: names("nfs"), facts: facts("nfs"), schema: freenasNfsSchema }),
  driverModule({ names: names("smb"), facts: facts("smb"), schema: freenasSmbSchema }),
  driverModule({ names: names("iscsi"), facts: facts("iscsi"), schema: freenasIscsiSchema }),
  driverModule({ names: names("nvmeof"), facts: facts("nvmeof"), schema: freenasNvmeofSchema }),
  driverModule({ names: names("api-nfs"), facts: facts("nfs"), schema: freenasApiNfsSchema }),
  driverModule({ names: names("api-smb"), facts: facts("smb"), schema: freenasApiSmbSchema }),
  driverModule({ names: names("api-iscsi"), facts: facts("iscsi"), schema: freenasApiIscsiSchema }),
  driverModule({ names: names("api-nvmeof"), facts: facts("nvmeof"), schema: freenasApiNvmeofSchema }),
];
