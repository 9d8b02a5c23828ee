import { disk, type Protocol } from "../../core/protocols.ts";
import { type DriverFacts, factsOf } from "../facts.ts";
import { type DriverModule, driverModule } from "../module.ts";
import { zfsParameters, zfsTerritory } from "./facts.ts";
import {
  zfsGenericIscsiSchema,
  zfsGenericNfsSchema,
  zfsGenericNvmeofSchema,
  zfsGenericSmbSchema,
  zfsInlineSchema,
  zfsLocalDatasetSchema,
  zfsLocalZvolSchema,
} from "./schema.ts";

const generic = (protocol: Protocol): DriverFacts =>
  factsOf(protocol, `zfs-generic:${protocol}`, {
    snapshotsNameVolume: true,
    parameters: zfsParameters,
    territory: zfsTerritory,
  });

/** Datasets or zvols of the node itself. */
const local = (family: string, more: Partial<DriverFacts>): DriverFacts =>
  factsOf("zfs-local", family, {
    local: true,
    snapshotsNameVolume: true,
    parameters: zfsParameters,
    territory: zfsTerritory,
    ...more,
  });

const datasets: Partial<DriverFacts> = { access: { kinds: ["mount"], filesystems: ["zfs"], sharedWriters: true } };

/** ZFS through its command line, on a storage host or on the node. Files are checked; nothing can be opened yet. */
export const zfs: readonly DriverModule[] = [
  driverModule({ names: ["zfs-generic-nfs"], facts: generic("nfs"), schema: zfsGenericNfsSchema }),
  driverModule({ names: ["zfs-generic-smb"], facts: generic("smb"), schema: zfsGenericSmbSchema }),
  driverModule({ names: ["zfs-generic-iscsi"], facts: generic("iscsi"), schema: zfsGenericIscsiSchema }),
  driverModule({ names: ["zfs-generic-nvmeof"], facts: generic("nvmeof"), schema: zfsGenericNvmeofSchema }),
  driverModule({
    names: ["zfs-local-dataset"],
    facts: local("zfs-local-dataset", datasets),
    schema: zfsLocalDatasetSchema,
  }),
  driverModule({
    names: ["zfs-local-zvol"],
    facts: local("zfs-local-zvol", { access: disk }),
    schema: zfsLocalZvolSchema,
  }),
  driverModule({
    names: ["zfs-local-ephemeral-inline"],
    facts: local("zfs-local-ephemeral-inline", { ...datasets, provisions: false, expands: false }),
    schema: zfsInlineSchema,
  }),
];
