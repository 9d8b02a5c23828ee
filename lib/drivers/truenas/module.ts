import type { GenericSchema, InferOutput } from "valibot";
import { type DriverFacts, factsOf } from "../facts.ts";
import { type DriverModule, driverModule } from "../module.ts";
import { devices, filesystems, zfsParameters, zfsTerritory } from "../zfs/open.ts";
import { openTrueNas, type ShareKind, type TrueNasConfig } from "./open.ts";
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
import { DiskShare } from "./shares/disk-share.ts";
import { Iscsi } from "./shares/iscsi.ts";
import { nfs } from "./shares/nfs.ts";
import { Nvmeof } from "./shares/nvmeof.ts";
import { PathShare } from "./shares/path-share.ts";
import { smb } from "./shares/smb.ts";

/** Volumes are the same whether ZFS is reached over SSH or over the API. */
const facts = (protocol: ShareKind["protocol"]): DriverFacts =>
  factsOf(protocol, `truenas:${protocol}`, {
    snapshotsNameVolume: true,
    parameters: zfsParameters,
    territory: zfsTerritory,
  });

/** A driver under both its names, because the product was called FreeNAS: `kind` says how its file shares volumes. */
const driver = <S extends GenericSchema<unknown, TrueNasConfig>>(
  name: string,
  protocol: ShareKind["protocol"],
  schema: S,
  kind: (config: InferOutput<S>) => Omit<ShareKind, "protocol">,
): DriverModule =>
  driverModule({
    names: [`freenas-${name}`, `truenas-${name}`],
    facts: facts(protocol),
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

type Section<K extends typeof nfs | typeof smb> = Parameters<K>[1];

const overNfs =
  (section: Section<typeof nfs>): ShareKind["share"] =>
  on =>
    new PathShare(on, nfs(on, section));
const overSmb =
  (section: Section<typeof smb>): ShareKind["share"] =>
  on =>
    new PathShare(on, smb(on, section));
const overIscsi =
  (section: ConstructorParameters<typeof Iscsi>[1]): ShareKind["share"] =>
  on =>
    new DiskShare(new Iscsi(on, section));
const overNvme =
  (section: ConstructorParameters<typeof Nvmeof>[1]): ShareKind["share"] =>
  on =>
    new DiskShare(new Nvmeof(on, section));

/** Every driver for TrueNAS: with ZFS over SSH and shares over the API, and with the API alone. */
export const truenas: readonly DriverModule[] = [
  driver("nfs", "nfs", freenasNfsSchema, c => ({ volumes: filesystems(c.zfs), share: overNfs(c.nfs) })),
  driver("smb", "smb", freenasSmbSchema, c => ({ volumes: filesystems(c.zfs), share: overSmb(c.smb) })),
  driver("iscsi", "iscsi", freenasIscsiSchema, c => ({ volumes: devices(c.zfs), share: overIscsi(c.iscsi) })),
  driver("nvmeof", "nvmeof", freenasNvmeofSchema, c => ({ volumes: devices(c.zfs), share: overNvme(c.nvmeof) })),
  driver("api-nfs", "nfs", freenasApiNfsSchema, c => ({ volumes: apiFilesystems(c.zfs), share: overNfs(c.nfs) })),
  driver("api-smb", "smb", freenasApiSmbSchema, c => ({ volumes: apiFilesystems(c.zfs), share: overSmb(c.smb) })),
  driver("api-iscsi", "iscsi", freenasApiIscsiSchema, c => ({ volumes: devices(c.zfs), share: overIscsi(c.iscsi) })),
  driver("api-nvmeof", "nvmeof", freenasApiNvmeofSchema, c => ({ volumes: devices(c.zfs), share: overNvme(c.nvmeof) })),
];
