import { mountCapability } from "../../../scripts/client.ts";
import { mounting } from "../disk-volume.ts";
import type { MountOptions } from "../rig.ts";
import { run } from "../run.ts";
import type { Login } from "./ssh-login.ts";

/** A ZFS driver in the lab: pool `tank`, datasets below `tank/<connection>`. */
export interface ZfsDriver {
  /** Its name in test titles. */
  readonly title: string;
  /** The connection's name, and the name of its dataset in the pool. */
  readonly connection: string;
  /** Whether volumes are disks with a file system. */
  readonly disk: boolean;
  readonly mount: MountOptions;
  /** The text of the connection file; `more` are further lines of the block `zfs`, each with its indentation. */
  file(login: Pick<Login, "lines">, more?: readonly string[]): string;
}

const parents = (connection: string): readonly string[] => [
  `  datasetParentName: tank/${connection}/v`,
  `  detachedSnapshotsDatasetParentName: tank/${connection}/s`,
];

const text = (...parts: readonly (readonly string[])[]): string => `${parts.flat().join("\n")}\n`;

const open = [
  "  datasetEnableQuotas: true",
  '  datasetPermissionsMode: "0777"',
  "  datasetPermissionsUser: 0",
  "  datasetPermissionsGroup: 0",
];

/** A block `nfs` or `smb` that shares by a property of the dataset. */
const byProperty = (protocol: "nfs" | "smb", property: string): readonly string[] => [
  `${protocol}:`,
  "  shareHost: 127.0.0.1",
  "  shareStrategy: setDatasetProperties",
  "  shareStrategySetDatasetProperties:",
  "    properties:",
  `      ${property}`,
];

const exported = byProperty("nfs", "sharenfs: rw,no_root_squash,insecure");

const targets = [
  "iscsi:",
  "  targetPortal: 127.0.0.1:3260",
  "  shareStrategy: targetCli",
  "  shareStrategyTargetCli:",
  "    basename: iqn.2025-01.lab.csimux:zfs",
  "    tpg:",
  "      attributes:",
  "        authentication: 0",
  "        generate_node_acls: 1",
  "        cache_dynamic_acls: 1",
  "        demo_mode_write_protect: 0",
  "    block:",
  "      attributes:",
  "        emulate_tpu: 1",
];

/** The file of an NFS connection to any pool at any address of this machine. */
export const nfsFile = (parent: string, ssh: readonly string[], more: readonly string[] = []): string =>
  text(
    ["driver: zfs-generic-nfs"],
    ssh,
    ["zfs:", `  datasetParentName: ${parent}/v`, `  detachedSnapshotsDatasetParentName: ${parent}/s`],
    open,
    more,
    exported,
  );

/** NFS behind one export of the folder above the volumes, which an administrator has made. */
export const behindExport: ZfsDriver = {
  ...{ title: "zfs-generic-nfs behind one export", connection: "cross", disk: false, mount: {} },
  file: (login, more = []) =>
    text(["driver: zfs-generic-nfs"], login.lines("root"), ["zfs:", ...parents("cross")], open, more, [
      "nfs:",
      "  shareHost: 127.0.0.1",
      "  shareStrategy: crossmnt",
    ]),
};

const onDisk: Pick<ZfsDriver, "disk" | "mount"> = { disk: true, mount: { capability: mounting("ext4") } };
const asFolder: Pick<ZfsDriver, "disk" | "mount"> = { disk: false, mount: {} };

/** The kernel of the lab needs closetimeo=0 to survive an unmount. */
const windows = {
  capability: {
    ...mountCapability,
    accessType: { case: "mount" as const, value: { mountFlags: ["vers=3.1.1", "closetimeo=0"] } },
  },
  secrets: { username: "csi", password: "csi" },
};

const nvmeof: ZfsDriver = {
  ...onDisk,
  title: "zfs-generic-nvmeof",
  connection: "nvmeof",
  file: (login, more = []) =>
    text(
      ["driver: zfs-generic-nvmeof"],
      login.lines("root"),
      ["zfs:", ...parents("nvmeof"), ...more],
      [
        "nvmeof:",
        "  transport: tcp://127.0.0.1:4420",
        "  shareStrategy: nvmetCli",
        "  shareStrategyNvmetCli:",
        "    basename: nqn.2025-01.lab.csimux:zfs",
        "    ports: [1]",
        "    subsystem:",
        "      attributes:",
        "        allow_any_host: 1",
      ],
    ),
};

/** Creates the port for the subsystems of zfs-generic-nvmeof, which is an administrator's task. */
export async function nvmePort(): Promise<void> {
  const script =
    'mkdir -p /etc/nvmet "$1" && cd "$1" && echo tcp >addr_trtype && echo ipv4 >addr_adrfam && echo 127.0.0.1 >addr_traddr && echo 4420 >addr_trsvcid';
  await run(["sh", "-c", script, "port", "/sys/kernel/config/nvmet/ports/1"]);
}

/** Every ZFS driver; NFS also with an account that is not root and has no POSIX shell. */
export const zfsDrivers: readonly ZfsDriver[] = [
  {
    ...asFolder,
    title: "zfs-generic-nfs",
    connection: "nfs",
    file: (login, more) => nfsFile("tank/nfs", login.lines("root"), more),
  },
  {
    ...asFolder,
    title: "zfs-generic-nfs with sudo behind a C shell",
    connection: "sudo",
    file: (login, more = []) => nfsFile("tank/sudo", login.lines("csh"), ["  cli:", "    sudoEnabled: true", ...more]),
  },
  {
    title: "zfs-generic-smb",
    connection: "smb",
    disk: false,
    mount: windows,
    file: (login, more = []) =>
      text(
        ["driver: zfs-generic-smb"],
        login.lines("root"),
        ["zfs:", ...parents("smb"), ...open, ...more],
        byProperty("smb", "sharesmb: on"),
      ),
  },
  {
    ...onDisk,
    title: "zfs-generic-iscsi",
    connection: "iscsi",
    file: (login, more = []) =>
      text(["driver: zfs-generic-iscsi"], login.lines("root"), ["zfs:", ...parents("iscsi"), ...more], targets),
  },
  {
    ...asFolder,
    title: "zfs-local-dataset",
    connection: "dataset",
    file: (_, more = []) =>
      text(["driver: zfs-local-dataset", "zfs:", ...parents("dataset"), "  datasetEnableQuotas: true", ...more]),
  },
  {
    ...onDisk,
    title: "zfs-local-zvol",
    connection: "zvol",
    file: (_, more = []) => text(["driver: zfs-local-zvol", "zfs:", ...parents("zvol"), ...more]),
  },
  nvmeof,
];

/** Lines of proxy.yaml for volumes that stay on their node. */
export const byNode = ["  nodeTopology:", "    type: node"];
