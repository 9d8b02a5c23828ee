import type { GenericSchema, InferOutput } from "valibot";
import { factsOf } from "../facts.ts";
import { type DriverModule, driverModule } from "../module.ts";
import { devices, filesystems, zfsParameters, zfsTerritory } from "../zfs/open.ts";
import { openTrueNas, type ShareKind, type TrueNasConfig } from "./open.ts";
import { schemas } from "./schema.ts";
import { DiskShare } from "./shares/disk-share.ts";
import { iscsi } from "./shares/iscsi.ts";
import { nfs } from "./shares/nfs.ts";
import { nvmeof } from "./shares/nvmeof.ts";
import { PathShare } from "./shares/path-share.ts";
import { smb } from "./shares/smb.ts";

/** A driver under both its names, because the product was called FreeNAS; `kind` says how its file shares volumes. */
const driver = <S extends GenericSchema<unknown, TrueNasConfig>>(
  name: string,
  schema: S,
  protocol: ShareKind["protocol"],
  kind: (config: InferOutput<S>) => Omit<ShareKind, "protocol">,
): DriverModule =>
  driverModule({
    names: [`freenas-${name}`, `truenas-${name}`],
    facts: factsOf(protocol, `truenas:${protocol}`, {
      parameters: zfsParameters,
      territory: zfsTerritory,
      unprivileged: "always",
      claims: "keeps",
      ...(name.startsWith("api-") && { copySsh: true }),
    }),
    schema,
    open: (identity, config, ports) => openTrueNas(identity, config, { protocol, ...kind(config) }, ports),
  });

/** The API refuses a quota below this many bytes. */
const leastQuota = 1n << 30n;

/** File systems that the API creates, which needs no program for access control lists. */
const apiFilesystems = (section: Omit<Parameters<typeof filesystems>[0], "datasetPermissionsAclsBinary">) => ({
  ...filesystems({ ...section, datasetPermissionsAclsBinary: "" }),
  least: section.datasetEnableQuotas ? leastQuota : undefined,
});

type On = Parameters<ShareKind["share"]>[0];
const overNfs = (section: Parameters<typeof nfs>[1]) => (on: On) => new PathShare(on, () => nfs(on, section));
const overSmb = (section: Parameters<typeof smb>[1]) => (on: On) => new PathShare(on, () => smb(on, section));
const overIscsi = (section: Parameters<typeof iscsi>[1]) => (on: On) => new DiskShare(on, () => iscsi(on, section));
const overNvme = (section: Parameters<typeof nvmeof>[1]) => (on: On) => new DiskShare(on, () => nvmeof(on, section));

const smbUse = ({ shareAuxiliaryConfigurationTemplate: template = "" }: Parameters<typeof smb>[1]) => ({
  auxiliary: template !== "",
});

/** Every driver for TrueNAS: with ZFS over SSH and shares over the API, and with the API alone. */
export const truenas: readonly DriverModule[] = [
  driver("nfs", schemas.nfs, "nfs", c => ({ volumes: filesystems(c.zfs), share: overNfs(c.nfs) })),
  driver("smb", schemas.smb, "smb", c => ({ volumes: filesystems(c.zfs), share: overSmb(c.smb), ...smbUse(c.smb) })),
  driver("iscsi", schemas.iscsi, "iscsi", c => ({ volumes: devices(c.zfs), share: overIscsi(c.iscsi) })),
  driver("nvmeof", schemas.nvmeof, "nvmeof", c => ({ volumes: devices(c.zfs), share: overNvme(c.nvmeof) })),
  driver("api-nfs", schemas["api-nfs"], "nfs", c => ({ volumes: apiFilesystems(c.zfs), share: overNfs(c.nfs) })),
  driver("api-smb", schemas["api-smb"], "smb", c => ({
    ...{ volumes: apiFilesystems(c.zfs), share: overSmb(c.smb) },
    ...smbUse(c.smb),
  })),
  driver("api-iscsi", schemas["api-iscsi"], "iscsi", c => ({ volumes: devices(c.zfs), share: overIscsi(c.iscsi) })),
  driver("api-nvmeof", schemas["api-nvmeof"], "nvmeof", c => ({ volumes: devices(c.zfs), share: overNvme(c.nvmeof) })),
];
