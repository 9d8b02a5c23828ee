import { type DriverModule, driverModule } from "../module.ts";
import {
  zfsGenericIscsiSchema,
  zfsGenericNfsSchema,
  zfsGenericNvmeofSchema,
  zfsGenericSmbSchema,
  zfsInlineSchema,
  zfsLocalDatasetSchema,
  zfsLocalZvolSchema,
} from "./schema.ts";

/** ZFS through its command line, on a storage host or on the node. Files are checked; nothing can be opened yet. */
export const zfs: readonly DriverModule[] = [
  driverModule({ names: ["zfs-generic-nfs"], schema: () => zfsGenericNfsSchema }),
  driverModule({ names: ["zfs-generic-smb"], schema: () => zfsGenericSmbSchema }),
  driverModule({ names: ["zfs-generic-iscsi"], schema: () => zfsGenericIscsiSchema }),
  driverModule({ names: ["zfs-generic-nvmeof"], schema: () => zfsGenericNvmeofSchema }),
  driverModule({ names: ["zfs-local-dataset"], schema: () => zfsLocalDatasetSchema }),
  driverModule({ names: ["zfs-local-zvol"], schema: () => zfsLocalZvolSchema }),
  driverModule({ names: ["zfs-local-ephemeral-inline"], schema: () => zfsInlineSchema }),
];
