import type { Driver } from "../../driver.ts";
import type { ConnectionIdentity, DriverPorts } from "../../module.ts";
import { StoreDriver } from "../../store-driver.ts";
import { behind } from "../cli/steps.ts";
import type { SubsystemConfig, TargetConfig } from "../config/schema.ts";
import { cliOf, devices, storeOn, sudoOf } from "../open.ts";
import { type TargetTool, targetGuard } from "./guard.ts";
import { lioTool } from "./lio.ts";
import { iscsiNames, nvmeNames } from "./names.ts";
import { nvmetTool } from "./nvmet.ts";
import { type TargetSettings, TargetShare } from "./share.ts";
import { spdkTool } from "./spdk.ts";

/** The paths of LioPaths and NvmetPaths, and where udev makes devices of zvols. */
const usualPaths = {
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
  const tool = () => {
    const sudo = lio.sudoEnabled ? sudoOf(section) : [];
    return lioTool(cli.host, {
      groupAttributes: texts(lio.tpg?.attributes),
      auth: texts(lio.tpg?.auth),
      blockAttributes: texts(lio.block?.attributes),
      targetcli: behind(sudo, "targetcli"),
      privileged: lio.sudoEnabled ? sudo : cli.programs.privileged,
      configfs: paths.lio,
      saved: paths.lioSaved,
    });
  };
  const { targetPortal, targetPortals } = iscsi;
  const reach = { portal: targetPortal, portals: targetPortals.join(","), interface: iscsi.interface, lun: "0" };
  const naming = { ...iscsi, basename: lio.basename, fits: iscsiNames };
  const { devices } = paths;
  const settings: TargetSettings = { protocol: "iscsi", note: "iscsi_assets_name", naming, key: "iqn", reach, devices };
  return opened(identity, section, cli, tool, settings);
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
  const { tool, basename } = subsystems(config, cli.host, paths);
  const { transport, transports } = nvmeof;
  const reach = { transport, transports: transports.join(","), nsid: "1" };
  const naming = { ...nvmeof, basename, fits: nvmeNames };
  const { devices } = paths;
  const note = "nvmeof_assets_name";
  return opened(identity, section, cli, tool, { protocol: "nvmeof", note, naming, key: "nqn", reach, devices });
}

type Cli = ReturnType<typeof cliOf>;

/** The tool that makes the subsystems; the schema demands the block of its strategy. */
function subsystems({ zfs: section, nvmeof }: SubsystemConfig, host: Cli["host"], paths: typeof usualPaths) {
  const { shareStrategyNvmetCli: nvmet, shareStrategySpdkCli: spdk } = nvmeof;
  if (nvmeof.shareStrategy === "nvmetCli" && nvmet) {
    const tool = () => {
      const privileged = nvmet.sudoEnabled ? sudoOf(section) : [];
      return nvmetTool(host, {
        nvmetcli: behind(privileged, nvmet.nvmetcliPath),
        privileged,
        configPath: nvmet.configPath,
        marker: nvmet.configIsImportedFilePath,
        attributes: texts(nvmet.subsystem?.attributes),
        ports: nvmet.ports.map(String),
        configfs: paths.nvmet,
        controllers: paths.controllers,
        connections: paths.connections,
        notes: paths.notes,
      });
    };
    return { tool, basename: nvmet.basename };
  }
  if (!spdk) throw new Error("the schema demands the block of the strategy");
  const tool = () =>
    spdkTool(host, {
      privileged: spdk.sudoEnabled ? sudoOf(section) : [],
      socket: spdk.rpcSocket,
      configPath: spdk.configPath,
      bdev: { type: spdk.bdev.type, attributes: texts(spdk.bdev.attributes) },
      attributes: texts(spdk.subsystem?.attributes),
      listeners: spdk.listeners.map(texts),
    });
  return { tool, basename: spdk.basename };
}

function opened(
  identity: ConnectionIdentity,
  section: TargetConfig["zfs"],
  { zfs, tools, host, close }: Cli,
  tool: () => TargetTool,
  settings: TargetSettings,
): Driver {
  const { protocol, note } = settings;
  const store = storeOn(zfs, identity, section, devices(section), { protocol, noteKeys: [note] }, close, tools);
  return new StoreDriver(identity, store, new TargetShare(settings, () => targetGuard(host, tool())));
}
