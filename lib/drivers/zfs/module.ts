import type { InferOutput } from "valibot";
import { type Access, disk, type Protocol } from "../../core/access.ts";
import type { Driver } from "../driver.ts";
import { type DriverFacts, factsOf } from "../facts.ts";
import { type ConnectionIdentity, type DriverModule, type DriverPorts, driverModule } from "../module.ts";
import { StoreDriver } from "../store-driver.ts";
import {
  zfsGenericIscsiSchema,
  zfsGenericNfsSchema,
  zfsGenericNvmeofSchema,
  zfsGenericSmbSchema,
  zfsInlineSchema,
  zfsLocalDatasetSchema,
  zfsLocalZvolSchema,
} from "./config/schema.ts";
import { openInline } from "./inline.ts";
import { cliOf, devices, filesystems, storeOn, zfsParameters, zfsTerritory } from "./open.ts";
import { LocalShare, PropertyShare } from "./shares.ts";
import { openIscsi, openNvmeof } from "./targets/open-targets.ts";

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

const localDatasets: Access = { kinds: ["mount"], filesystems: ["zfs"], sharedWriters: true };
const datasets: Partial<DriverFacts> = { access: localDatasets };

type SharedConfig = InferOutput<typeof zfsGenericNfsSchema> | InferOutput<typeof zfsGenericSmbSchema>;

/** File systems that ZFS shares because of the property `key`. */
function openShared(
  protocol: "nfs" | "smb",
  key: "sharenfs" | "sharesmb",
  { shareHost, value }: { readonly shareHost: string; readonly value: string | undefined },
  identity: ConnectionIdentity,
  { zfs: section, sshConnection }: SharedConfig,
  ports: DriverPorts,
): Driver {
  const { zfs, close } = cliOf(section, sshConnection, ports);
  const values: Readonly<Record<string, string>> = value ? { [key]: value } : {};
  const store = storeOn(zfs, identity, section, filesystems(section), { protocol, values }, close);
  return new StoreDriver(identity, store, new PropertyShare(protocol, shareHost));
}

const legacy = { mountpoint: "legacy" };

/** ZFS through its command line, on a storage host or on the node. */
export const zfs: readonly DriverModule[] = [
  driverModule({
    names: ["zfs-generic-nfs"],
    facts: generic("nfs"),
    schema: zfsGenericNfsSchema,
    open(identity, config, ports) {
      const { shareHost, shareStrategySetDatasetProperties: set } = config.nfs;
      const share = { shareHost, value: set?.properties?.sharenfs };
      return openShared("nfs", "sharenfs", share, identity, config, ports);
    },
  }),
  driverModule({
    names: ["zfs-generic-smb"],
    facts: generic("smb"),
    schema: zfsGenericSmbSchema,
    open(identity, config, ports) {
      const { shareHost, shareStrategySetDatasetProperties: set } = config.smb;
      const share = { shareHost, value: set?.properties?.sharesmb };
      return openShared("smb", "sharesmb", share, identity, config, ports);
    },
  }),
  driverModule({
    names: ["zfs-generic-iscsi"],
    facts: generic("iscsi"),
    schema: zfsGenericIscsiSchema,
    open: (identity, config, ports) => openIscsi(identity, config, ports),
  }),
  driverModule({
    names: ["zfs-generic-nvmeof"],
    facts: generic("nvmeof"),
    schema: zfsGenericNvmeofSchema,
    open: (identity, config, ports) => openNvmeof(identity, config, ports),
  }),
  driverModule({
    names: ["zfs-local-dataset"],
    facts: local("zfs-local-dataset", datasets),
    schema: zfsLocalDatasetSchema,
    open(identity, { zfs: section }, ports) {
      const { zfs, close } = cliOf(section, undefined, ports);
      // Its node mounts it; until then it is mounted nowhere, so its owner and mode are the node's to set.
      const volumes = { ...filesystems(section), permissions: undefined };
      const store = storeOn(zfs, identity, section, volumes, { protocol: "zfs-local", values: legacy }, close);
      return new StoreDriver(identity, store, new LocalShare(localDatasets, false));
    },
  }),
  driverModule({
    names: ["zfs-local-zvol"],
    facts: local("zfs-local-zvol", { access: disk }),
    schema: zfsLocalZvolSchema,
    open(identity, { zfs: section }, ports) {
      const { zfs, close } = cliOf(section, undefined, ports);
      const store = storeOn(zfs, identity, section, devices(section), { protocol: "zfs-local" }, close);
      return new StoreDriver(identity, store, new LocalShare(disk, true));
    },
  }),
  driverModule({
    names: ["zfs-local-ephemeral-inline"],
    facts: local("zfs-local-ephemeral-inline", { ...datasets, provisions: false, expands: false }),
    schema: zfsInlineSchema,
    open: (identity, config, ports) => openInline(identity, config, ports, localDatasets),
  }),
];
