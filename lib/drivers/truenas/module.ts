import type { Protocol } from "../../core/access.ts";
import { type DriverFacts, factsOf } from "../facts.ts";
import { type DriverModule, driverModule } from "../module.ts";
import { devices, filesystems, zfsParameters, zfsTerritory } from "../zfs/open.ts";
import { openTrueNas, type ShareKind } from "./open.ts";
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
import { IscsiShare } from "./shares/iscsi.ts";
import { NfsShare } from "./shares/nfs.ts";
import { NvmeofShare } from "./shares/nvmeof.ts";
import { SmbShare } from "./shares/smb.ts";

/** Both names of a driver: the product was FreeNAS once. */
const names = (rest: string): readonly string[] => [`freenas-${rest}`, `truenas-${rest}`];

/** Volumes are the same whether ZFS is reached over SSH or over the API. */
const facts = (protocol: Protocol): DriverFacts =>
  factsOf(protocol, `truenas:${protocol}`, {
    snapshotsNameVolume: true,
    parameters: zfsParameters,
    territory: zfsTerritory,
  });

/** The API refuses a quota below this many bytes. */
const leastQuota = 1n << 30n;

/** Volumes that are file systems, made by the API, which needs no program for lists of access control. */
const apiFilesystems = (section: Omit<Parameters<typeof filesystems>[0], "datasetPermissionsAclsBinary">) => ({
  ...filesystems({ ...section, datasetPermissionsAclsBinary: "" }),
  least: section.datasetEnableQuotas ? leastQuota : undefined,
});

/** The four ways to share, each with its part of the file. */
const nfs = (volumes: ShareKind["volumes"], section: ConstructorParameters<typeof NfsShare>[1]): ShareKind => ({
  protocol: "nfs",
  volumes,
  share: site => new NfsShare(site, section),
});

const smb = (volumes: ShareKind["volumes"], section: ConstructorParameters<typeof SmbShare>[1]): ShareKind => ({
  protocol: "smb",
  volumes,
  share: site => new SmbShare(site, section),
});

const iscsi = (volumes: ShareKind["volumes"], section: ConstructorParameters<typeof IscsiShare>[1]): ShareKind => ({
  protocol: "iscsi",
  volumes,
  share: site => new IscsiShare(site, section),
});

const nvmeof = (volumes: ShareKind["volumes"], section: ConstructorParameters<typeof NvmeofShare>[1]): ShareKind => ({
  protocol: "nvmeof",
  volumes,
  share: site => new NvmeofShare(site, section),
});

/** TrueNAS through its API alone. */
const overApi: readonly DriverModule[] = [
  driverModule({
    names: names("api-nfs"),
    facts: facts("nfs"),
    schema: freenasApiNfsSchema,
    open: (identity, config, ports) =>
      openTrueNas(identity, config, nfs(apiFilesystems(config.zfs), config.nfs), ports),
  }),
  driverModule({
    names: names("api-smb"),
    facts: facts("smb"),
    schema: freenasApiSmbSchema,
    open: (identity, config, ports) =>
      openTrueNas(identity, config, smb(apiFilesystems(config.zfs), config.smb), ports),
  }),
  driverModule({
    names: names("api-iscsi"),
    facts: facts("iscsi"),
    schema: freenasApiIscsiSchema,
    open: (identity, config, ports) => openTrueNas(identity, config, iscsi(devices(config.zfs), config.iscsi), ports),
  }),
  driverModule({
    names: names("api-nvmeof"),
    facts: facts("nvmeof"),
    schema: freenasApiNvmeofSchema,
    open: (identity, config, ports) => openTrueNas(identity, config, nvmeof(devices(config.zfs), config.nvmeof), ports),
  }),
];

/** TrueNAS with ZFS over SSH, and its API for what is shared. */
const overSsh: readonly DriverModule[] = [
  driverModule({
    names: names("nfs"),
    facts: facts("nfs"),
    schema: freenasNfsSchema,
    open: (identity, config, ports) => openTrueNas(identity, config, nfs(filesystems(config.zfs), config.nfs), ports),
  }),
  driverModule({
    names: names("smb"),
    facts: facts("smb"),
    schema: freenasSmbSchema,
    open: (identity, config, ports) => openTrueNas(identity, config, smb(filesystems(config.zfs), config.smb), ports),
  }),
  driverModule({
    names: names("iscsi"),
    facts: facts("iscsi"),
    schema: freenasIscsiSchema,
    open: (identity, config, ports) => openTrueNas(identity, config, iscsi(devices(config.zfs), config.iscsi), ports),
  }),
  driverModule({
    names: names("nvmeof"),
    facts: facts("nvmeof"),
    schema: freenasNvmeofSchema,
    open: (identity, config, ports) => openTrueNas(identity, config, nvmeof(devices(config.zfs), config.nvmeof), ports),
  }),
];

/** Every driver for TrueNAS. */
export const truenas: readonly DriverModule[] = [...overSsh, ...overApi];
