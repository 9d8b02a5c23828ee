import type { Driver } from "../../driver.ts";
import type { ConnectionIdentity, DriverPorts } from "../../module.ts";
import { StoreDriver } from "../../store-driver.ts";
import type { SubsystemConfig, TargetConfig } from "../config/schema.ts";
import { cliOf, devices, storeOn, sudoOf } from "../open.ts";
import type { TargetExporter } from "./exporter.ts";
import { targetGuard } from "./guard.ts";
import { hostTargets } from "./host-targets.ts";
import { iscsiNames, nvmeNames } from "./names.ts";
import { type TargetSettings, TargetShare } from "./share.ts";
import { spdkTool } from "./spdk.ts";

/** The paths of LioSettings and NvmetSettings, and where udev makes devices of zvols. Some tests change them. */
export const usualPaths = {
  lio: "/sys/kernel/config/target",
  // Debian, and upstream.
  lioSaved: ["/etc/rtslib-fb-target/saveconfig.json", "/etc/target/saveconfig.json"],
  // targetcli-fb 2.1.51 and newer hold it while they run.
  lioLock: "/var/run/targetcli.lock",
  nvmet: "/sys/kernel/config/nvmet",
  nvmetSaved: "/etc/nvmet/config.json",
  // nvmetcli has none.
  nvmetLock: "/run/lock/csimux-nvmetcli",
  controllers: "/sys/kernel/debug/nvmet",
  connections: ["/proc/net/tcp", "/proc/net/tcp6"],
  notes: "/run",
  blocks: "/sys/block",
  udev: "/run/udev/data",
  devices: "/dev/zvol",
};

const texts = (values: Readonly<Record<string, unknown>> | undefined): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(values ?? {}).flatMap(([key, value]) =>
      value === undefined || value === "" ? [] : [[key, String(value)]],
    ),
  );

/** Values of attributes as the kernel shows them. */
const values = (attributes: Readonly<Record<string, unknown>> | undefined): Readonly<Record<string, string>> => {
  const numbers: Readonly<Record<string, string>> = { true: "1", false: "0" };
  return Object.fromEntries(Object.entries(texts(attributes)).map(([key, value]) => [key, numbers[value] ?? value]));
};

/** Opens zfs-generic-iscsi. Does no I/O. Tests have other `paths`. */
export function openIscsi(
  identity: ConnectionIdentity,
  config: TargetConfig,
  ports: DriverPorts,
  paths = usualPaths,
): Driver {
  const { zfs: section, iscsi } = config;
  const lio = iscsi.shareStrategyTargetCli;
  const cli = cliOf(section, config.sshConnection, ports);
  const exporter = () => {
    const { userid, password, mutual_userid, mutual_password } = lio.tpg?.auth ?? {};
    return hostTargets(cli.host, {
      kind: "lio",
      zfs: cli.programs.zfs,
      privileged: lio.sudoEnabled ? sudoOf(section) : cli.programs.privileged,
      root: paths.lio,
      lock: paths.lioLock,
      blocks: paths.blocks,
      udev: paths.udev,
      saved: paths.lioSaved,
      group: values(lio.tpg?.attributes),
      auth: texts({ userid, password, userid_mutual: mutual_userid, password_mutual: mutual_password }),
      block: values(lio.block?.attributes),
    });
  };
  const { targetPortal, targetPortals } = iscsi;
  const reach = { portal: targetPortal, portals: targetPortals.join(","), interface: iscsi.interface, lun: "0" };
  const naming = { ...iscsi, basename: lio.basename, fits: iscsiNames };
  const { devices } = paths;
  const settings: TargetSettings = { protocol: "iscsi", note: "iscsi_assets_name", naming, key: "iqn", reach, devices };
  return opened(identity, section, cli, exporter, settings);
}

/** Opens zfs-generic-nvmeof. Does no I/O. Tests have other `paths`. */
export function openNvmeof(
  identity: ConnectionIdentity,
  config: SubsystemConfig,
  ports: DriverPorts,
  paths = usualPaths,
): Driver {
  const { zfs: section, nvmeof } = config;
  const cli = cliOf(section, config.sshConnection, ports);
  const { exporter, basename } = subsystems(config, cli, paths);
  const { transport, transports } = nvmeof;
  const reach = { transport, transports: transports.join(","), nsid: "1" };
  const naming = { ...nvmeof, basename, fits: nvmeNames };
  const { devices } = paths;
  const note = "nvmeof_assets_name";
  return opened(identity, section, cli, exporter, { protocol: "nvmeof", note, naming, key: "nqn", reach, devices });
}

type Cli = ReturnType<typeof cliOf>;

/** What makes the subsystems; the schema demands the block of its strategy. */
function subsystems({ zfs: section, nvmeof }: SubsystemConfig, { host, programs }: Cli, paths: typeof usualPaths) {
  const { zfs } = programs;
  const { shareStrategyNvmetCli: nvmet, shareStrategySpdkCli: spdk } = nvmeof;
  if (nvmeof.shareStrategy === "nvmetCli" && nvmet) {
    const exporter = () =>
      hostTargets(host, {
        kind: "nvmet",
        zfs,
        privileged: nvmet.sudoEnabled ? sudoOf(section) : [],
        root: paths.nvmet,
        lock: paths.nvmetLock,
        blocks: paths.blocks,
        udev: paths.udev,
        saved: nvmet.configPath ?? paths.nvmetSaved,
        marker: nvmet.configIsImportedFilePath,
        attributes: values(nvmet.subsystem?.attributes),
        ports: nvmet.ports.map(String),
        controllers: paths.controllers,
        connections: paths.connections,
        notes: paths.notes,
      });
    return { exporter, basename: nvmet.basename };
  }
  if (!spdk) throw new Error("the schema demands the block of the strategy");
  const exporter = () =>
    targetGuard(
      host,
      programs,
      spdkTool(host, {
        zfs,
        privileged: spdk.sudoEnabled ? sudoOf(section) : [],
        socket: spdk.rpcSocket,
        blocks: paths.blocks,
        configPath: spdk.configPath,
        bdev: { type: spdk.bdev.type, attributes: texts(spdk.bdev.attributes) },
        attributes: texts(spdk.subsystem?.attributes),
        listeners: spdk.listeners.map(texts),
      }),
    );
  return { exporter, basename: spdk.basename };
}

function opened(
  identity: ConnectionIdentity,
  section: TargetConfig["zfs"],
  { zfs, tools, close }: Cli,
  exporter: () => TargetExporter,
  settings: TargetSettings,
): Driver {
  const { protocol, note } = settings;
  const sharing = { protocol, noteKeys: [note] };
  const store = storeOn(zfs, identity, section, { volumes: devices(section), sharing, close, tools });
  return new StoreDriver(identity, store, new TargetShare(settings, exporter));
}
