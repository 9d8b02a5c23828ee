import { type Access, disk, type Protocol } from "../../core/access.ts";
import { type DriverFacts, factsOf } from "../facts.ts";
import { type ConnectionIdentity, type DriverModule, type DriverPorts, driverModule } from "../module.ts";
import { StoreDriver } from "../store-driver.ts";
import { type SharedConfig, schemas } from "./config/schema.ts";
import { openInline } from "./inline.ts";
import { cliOf, devices, filesystems, storeOn, zfsParameters, zfsTerritory } from "./open.ts";
import { withCrossmnt } from "./shares/crossmnt.ts";
import { localShare, nfsAddress, propertyShare } from "./shares/properties.ts";
import { withUsershares } from "./shares/usershares.ts";
import { openIscsi, openNvmeof } from "./targets/open-targets.ts";
import type { ZfsVolume } from "./volume.ts";

const facts = (protocol: Protocol, family: string, more: Partial<DriverFacts> = {}): DriverFacts =>
  factsOf(protocol, family, {
    parameters: zfsParameters,
    territory: zfsTerritory,
    claims: "keeps",
    ...more,
  });

const generic = (protocol: Protocol): DriverFacts =>
  facts(protocol, `zfs-generic:${protocol}`, {
    unprivileged: "over-ssh",
    // Samba does not say who uses a share, nor most kernels who is connected to a subsystem.
    claims: protocol === "nfs" || protocol === "iscsi" ? "adopts" : "keeps",
  });

/** Datasets or zvols of the node itself. */
const local = (family: string, more: Partial<DriverFacts>): DriverFacts =>
  facts("zfs-local", family, { local: true, ...more });

const localDatasets: Access = { kinds: ["mount"], filesystems: ["zfs"], sharedWriters: true };

/** How nodes reach file systems: ZFS shares them because of `values`, or, where `isBehindExport`, an export above them. */
interface SharedFilesystems {
  readonly protocol: "nfs" | "smb";
  readonly server: string;
  readonly values: Readonly<Record<string, string>>;
  readonly isBehindExport: boolean;
}

function openShared(
  identity: ConnectionIdentity,
  { zfs: section, sshConnection }: SharedConfig,
  ports: DriverPorts,
  { protocol, server, values, isBehindExport }: SharedFilesystems,
): StoreDriver<ZfsVolume> {
  const { zfs, host, tools, close } = cliOf(section, sshConnection, ports);
  const address = protocol === "nfs" && !isBehindExport ? nfsAddress(server) : undefined;
  const sharing = { protocol, values, address };
  const store = storeOn(zfs, identity, section, { volumes: filesystems(section), sharing, close, tools });
  const share = propertyShare(protocol, server, zfs);
  if ((values["sharesmb"] ?? "off") !== "off")
    return new StoreDriver(identity, store, withUsershares(share, zfs, host));
  return new StoreDriver(identity, store, isBehindExport ? withCrossmnt(share, host) : share);
}

/** ZFS through its command line, on a storage host or on the node. */
export const zfs: readonly DriverModule[] = [
  driverModule({
    names: ["zfs-generic-nfs"],
    facts: generic("nfs"),
    schema: schemas.genericNfs,
    open(identity, config, ports) {
      const { shareHost, shareStrategy, shareStrategySetDatasetProperties: set } = config.nfs;
      const isBehindExport = shareStrategy === "crossmnt";
      const sharenfs = isBehindExport ? "off" : set?.properties?.sharenfs;
      const values = sharenfs ? { sharenfs } : {};
      return openShared(identity, config, ports, { protocol: "nfs", server: shareHost, values, isBehindExport });
    },
  }),
  driverModule({
    names: ["zfs-generic-smb"],
    facts: generic("smb"),
    schema: schemas.genericSmb,
    open(identity, config, ports) {
      const { shareHost, shareStrategySetDatasetProperties: set } = config.smb;
      const sharesmb = set?.properties?.sharesmb;
      const values = sharesmb ? { sharesmb } : {};
      return openShared(identity, config, ports, { protocol: "smb", server: shareHost, values, isBehindExport: false });
    },
  }),
  driverModule({
    names: ["zfs-generic-iscsi"],
    facts: generic("iscsi"),
    schema: schemas.genericIscsi,
    open: (identity, config, ports) => openIscsi(identity, config, ports),
  }),
  driverModule({
    names: ["zfs-generic-nvmeof"],
    facts: generic("nvmeof"),
    schema: schemas.genericNvmeof,
    open: (identity, config, ports) => openNvmeof(identity, config, ports),
  }),
  driverModule({
    names: ["zfs-local-dataset"],
    facts: local("zfs-local-dataset", { access: localDatasets }),
    schema: schemas.localDataset,
    open(identity, { zfs: section }, ports) {
      const { zfs, tools, close } = cliOf(section, undefined, ports);
      // Its node mounts it; until then it is mounted nowhere, so its owner and mode are the node's to set.
      const volumes = { ...filesystems(section), permissions: undefined };
      const sharing = { protocol: "zfs-local", values: { mountpoint: "legacy" } } as const;
      const store = storeOn(zfs, identity, section, { volumes, sharing, close, tools });
      return new StoreDriver(identity, store, localShare(localDatasets, false));
    },
  }),
  driverModule({
    names: ["zfs-local-zvol"],
    facts: local("zfs-local-zvol", { access: disk }),
    schema: schemas.localZvol,
    open(identity, { zfs: section }, ports) {
      const { zfs, tools, close } = cliOf(section, undefined, ports);
      const sharing = { protocol: "zfs-local" } as const;
      const store = storeOn(zfs, identity, section, { volumes: devices(section), sharing, close, tools });
      return new StoreDriver(identity, store, localShare(disk, true));
    },
  }),
  driverModule({
    names: ["zfs-local-ephemeral-inline"],
    facts: local("zfs-local-ephemeral-inline", { access: localDatasets, provisions: false, expands: false }),
    schema: schemas.inline,
    open: (identity, config, ports) => openInline(identity, config, ports, localDatasets),
  }),
];
