import type { Driver } from "../../driver.ts";
import type { ConnectionIdentity, DriverPorts } from "../../module.ts";
import { StoreDriver } from "../../store-driver.ts";
import type { IscsiConfig, NvmeofConfig } from "../config/schema.ts";
import { cliOf, devices, storeOn, sudoOf } from "../open.ts";
import { LioTargets } from "./lio.ts";
import { iscsiNames, nvmeNames } from "./names.ts";
import { NvmetTargets } from "./nvmet.ts";
import { type TargetSettings, TargetShare, type Targets } from "./share.ts";
import { SpdkTargets } from "./spdk.ts";

/**
 * Where the kernel shows its targets (LIO), subsystems and who is connected, where rtslib saves the targets, where notes of closed
 * subsystems lie, where udev shows zvols.
 */
const usual = {
  lio: "/sys/kernel/config/target",
  // Upstream, and Debian.
  lioSaved: ["/etc/target/saveconfig.json", "/etc/rtslib-fb-target/saveconfig.json"],
  nvmet: "/sys/kernel/config/nvmet",
  controllers: "/sys/kernel/debug/nvmet",
  connections: ["/proc/net/tcp", "/proc/net/tcp6"],
  notes: "/run",
  devices: "/dev/zvol",
};

const texts = (values: Readonly<Record<string, unknown>> | undefined): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(values ?? {}).flatMap(([key, value]) =>
      value === undefined || value === "" ? [] : [[key, String(value)]],
    ),
  );

/** Opens zfs-generic-iscsi. Does no I/O. `places` are others in tests. */
export function openIscsi(
  identity: ConnectionIdentity,
  config: IscsiConfig,
  ports: DriverPorts,
  places = usual,
): Driver {
  const { zfs: section, iscsi } = config;
  const lio = iscsi.shareStrategyTargetCli;
  const cli = cliOf(section, config.sshConnection, ports);
  const sudo = lio.sudoEnabled ? sudoOf(section) : [];
  const targets = new LioTargets(cli.host, {
    groupAttributes: texts(lio.tpg?.attributes),
    auth: texts(lio.tpg?.auth),
    blockAttributes: texts(lio.block?.attributes),
    targetcli: behind(sudo, "targetcli"),
    privileged: lio.sudoEnabled ? sudo : cli.words.privileged,
    configfs: places.lio,
    saved: places.lioSaved,
  });
  const { targetPortal, targetPortals } = iscsi;
  const reach = { portal: targetPortal, portals: targetPortals.join(","), interface: iscsi.interface, lun: "0" };
  const naming = { ...iscsi, basename: lio.basename, fits: iscsiNames };
  const { devices } = places;
  const settings: TargetSettings = { protocol: "iscsi", note: "iscsi_assets_name", naming, key: "iqn", reach, devices };
  return opened(identity, section, cli, targets, settings);
}

/** Opens zfs-generic-nvmeof. Does no I/O. `places` are others in tests. */
export function openNvmeof(
  identity: ConnectionIdentity,
  config: NvmeofConfig,
  ports: DriverPorts,
  places = usual,
): Driver {
  const { zfs: section, nvmeof } = config;
  const cli = cliOf(section, config.sshConnection, ports);
  const { targets, basename } = subsystems(config, cli.host, places);
  const { transport, transports } = nvmeof;
  const reach = { transport, transports: transports.join(","), nsid: "1" };
  const naming = { ...nvmeof, basename, fits: nvmeNames };
  const { devices } = places;
  const note = "nvmeof_assets_name";
  return opened(identity, section, cli, targets, { protocol: "nvmeof", note, naming, key: "nqn", reach, devices });
}

type Cli = ReturnType<typeof cliOf>;

/** What makes the subsystems: the schema has seen to it that the block of the strategy is there. */
function subsystems({ zfs: section, nvmeof }: NvmeofConfig, host: Cli["host"], places: typeof usual) {
  const { shareStrategyNvmetCli: nvmet, shareStrategySpdkCli: spdk } = nvmeof;
  if (nvmeof.shareStrategy === "nvmetCli" && nvmet) {
    const privileged = nvmet.sudoEnabled ? sudoOf(section) : [];
    const targets = new NvmetTargets(host, {
      nvmetcli: behind(privileged, nvmet.nvmetcliPath),
      privileged,
      configPath: nvmet.configPath,
      marker: nvmet.configIsImportedFilePath,
      attributes: texts(nvmet.subsystem?.attributes),
      ports: nvmet.ports.map(String),
      configfs: places.nvmet,
      controllers: places.controllers,
      connections: places.connections,
      notes: places.notes,
    });
    return { targets, basename: nvmet.basename };
  }
  if (!spdk) throw new Error("the schema lets no strategy pass whose block is absent");
  const targets = new SpdkTargets(host, {
    privileged: spdk.sudoEnabled ? sudoOf(section) : [],
    socket: spdk.rpcSocket,
    configPath: spdk.configPath,
    bdev: { type: spdk.bdev.type, attributes: texts(spdk.bdev.attributes) },
    attributes: texts(spdk.subsystem?.attributes),
    listeners: spdk.listeners.map(texts),
  });
  return { targets, basename: spdk.basename };
}

const behind = (sudo: readonly string[], program: string): readonly [string, ...string[]] => {
  const [first, ...rest] = sudo;
  return first === undefined ? [program] : [first, ...rest, program];
};

function opened(
  identity: ConnectionIdentity,
  section: IscsiConfig["zfs"],
  { zfs, close }: Cli,
  targets: Targets,
  settings: TargetSettings,
): Driver {
  const { protocol, note } = settings;
  const store = storeOn(zfs, identity, section, devices(section), { protocol, noteKeys: [note] }, close);
  return new StoreDriver(identity, store, new TargetShare(targets, settings));
}
