import { quoted } from "../../lib/io/script.ts";
import bareTargets from "./bare-targets.py" with { type: "text" };

/** What is measured on a storage host with ZFS, and the bare commands for the same results. */

export const dataset = (connection: string): string => `tank/bench-${connection}`;
const parent = (connection: string): string => `${dataset(connection)}/v`;
/** The size of every volume. */
export const bytes = 64 << 20;
const iqn = "iqn.2025-01.lab.csimux:bench";
const nqn = "nqn.2025-01.lab.csimux:bench";
const attributes = ["authentication=0", "generate_node_acls=1", "cache_dynamic_acls=1", "demo_mode_write_protect=0"];

const shares = {
  nfs: [
    "  datasetEnableQuotas: true",
    '  datasetPermissionsMode: "0777"',
    "nfs:",
    "  shareHost: 127.0.0.1",
    "  shareStrategy: setDatasetProperties",
    "  shareStrategySetDatasetProperties:",
    "    properties:",
    "      sharenfs: rw,no_root_squash,insecure",
  ],
  iscsi: [
    "iscsi:",
    "  targetPortal: 127.0.0.1:3260",
    "  shareStrategy: targetCli",
    "  shareStrategyTargetCli:",
    `    basename: ${iqn}`,
    "    tpg:",
    "      attributes:",
    ...attributes.map(each => `        ${each.replace("=", ": ")}`),
  ],
  nvmeof: [
    "nvmeof:",
    "  transport: tcp://127.0.0.1:4420",
    "  shareStrategy: nvmetCli",
    "  shareStrategyNvmetCli:",
    `    basename: ${nqn}`,
    "    ports: [1]",
    "    subsystem:",
    "      attributes:",
    "        allow_any_host: 1",
  ],
} as const;

export type Connection = keyof typeof shares;
export const connections: readonly Connection[] = ["nfs", "iscsi", "nvmeof"];

/** The text of a connection file. `login`: its lines that say how the host is reached. */
export function connectionFile(name: Connection, login: readonly string[]): string {
  const zfs = [`  datasetParentName: ${parent(name)}`, `  detachedSnapshotsDatasetParentName: ${dataset(name)}/s`];
  return [`driver: zfs-generic-${name}`, ...login, "zfs:", ...zfs, ...shares[name], ""].join("\n");
}

const properties = (name: string): string =>
  `-o democratic-csi:csi_volume_name=${name} -o democratic-csi:managed_resource=true`;
const success = "democratic-csi:provision_success=true";

const hostProgram = "/run/bare-targets.py";
const targets = {
  iscsi: "lio /sys/kernel/config/target /etc/rtslib-fb-target/saveconfig.json",
  nvmeof: "nvmet /sys/kernel/config/nvmet /etc/nvmet/config.json",
} as const;
type Disks = keyof typeof targets;
const python = (connection: Disks, words: string): string =>
  `python3 -I -S ${hostProgram} ${targets[connection]} ${words}`;
const targetcli = (...lines: readonly string[]): string => `echo '${lines.join("\n")}' | targetcli >/dev/null`;

const zvol = (connection: Disks, name: string): string => `${parent(connection)}/${name}`;

/** A zvol that nodes reach once `share` has run. */
const shared = (connection: Disks, name: string, share: string): string =>
  `zfs create -s -b 16384 -V ${bytes} ${properties(name)} ${zvol(connection, name)} && ` +
  `until [ -e /dev/zvol/${zvol(connection, name)} ]; do sleep 0.1; done; ` +
  `${share} && zfs set ${success} ${zvol(connection, name)}`;

/** The device is held a moment longer than the target. */
const destroyed = (connection: Disks, name: string, unshare: string): string =>
  `${unshare}; n=0; until zfs destroy -r ${zvol(connection, name)}; do n=$((n+1)); [ $n -lt 20 ] || exit 1; sleep 0.2; done`;

const targetOf = { iscsi: (name: string) => `${iqn}:${name}`, nvmeof: (name: string) => `${nqn}:${name}` } as const;
const bareDisk = (connection: Disks) => ({
  make: (name: string) =>
    shared(
      connection,
      name,
      python(connection, `make ${targetOf[connection](name)} /dev/zvol/${zvol(connection, name)}`),
    ),
  remove: (name: string) => destroyed(connection, name, python(connection, `remove ${targetOf[connection](name)} -`)),
});

const madeByTargetcli = (name: string): string =>
  targetcli(
    "cd /iscsi",
    `create ${iqn}:${name}`,
    `cd /iscsi/${iqn}:${name}/tpg1`,
    ...attributes.map(each => `set attribute ${each}`),
    "cd /backstores/block",
    `create ${name} /dev/zvol/${zvol("iscsi", name)}`,
    `cd /iscsi/${iqn}:${name}/tpg1/luns`,
    `create /backstores/block/${name}`,
  );
const removedByTargetcli = (name: string): string =>
  targetcli("cd /iscsi", `delete ${iqn}:${name}`, "cd /backstores/block", `delete ${name}`);

/** One call of csimux, and what it is compared with. */
export interface Operation {
  readonly rpc: "CreateVolume" | "CreateSnapshot" | "DeleteVolume";
  readonly connection: Connection;
  /** The bare commands for the same result. */
  readonly bare: (name: string) => string;
  /** The same with the tool of the host, which others use. */
  readonly tool?: (name: string) => string;
  /** How many times as long as the bare commands it may take. */
  readonly ratio: number;
  /** The most scripts, and processes on the host, those that zfs itself starts included. */
  readonly trips?: number;
  readonly processes?: number;
}

const nfs = parent("nfs");
const [bareLio, bareNvmet] = [bareDisk("iscsi"), bareDisk("nvmeof")];

export const operations: readonly Operation[] = [
  {
    rpc: "CreateVolume",
    connection: "nfs",
    bare: name =>
      `zfs create -o refquota=${bytes} -o sharenfs=rw,no_root_squash,insecure ${properties(name)} ${nfs}/${name} && ` +
      `chmod 0777 /${nfs}/${name} && zfs set ${success} ${nfs}/${name}`,
    ratio: 1.15,
    trips: 2,
    processes: 9,
  },
  {
    rpc: "CreateSnapshot",
    connection: "nfs",
    bare: name => `zfs snapshot ${properties(name)} ${nfs}/source@${name}`,
    ratio: 1.15,
  },
  {
    rpc: "DeleteVolume",
    connection: "nfs",
    bare: name => `zfs destroy -r ${nfs}/${name}`,
    ratio: 1.25,
    trips: 2,
    processes: 8,
  },
  { rpc: "CreateVolume", connection: "nvmeof", bare: bareNvmet.make, ratio: 1.3, trips: 3 },
  { rpc: "DeleteVolume", connection: "nvmeof", bare: bareNvmet.remove, ratio: 1.3, trips: 3 },
  {
    rpc: "CreateVolume",
    connection: "iscsi",
    bare: bareLio.make,
    tool: name => shared("iscsi", name, madeByTargetcli(name)),
    ratio: 1.5,
    trips: 3,
  },
  {
    rpc: "DeleteVolume",
    connection: "iscsi",
    bare: bareLio.remove,
    tool: name => destroyed("iscsi", name, removedByTargetcli(name)),
    ratio: 1.5,
    trips: 3,
  },
];

/** Prepares a host: the program of the bare writes, and the port for NVMe, which is an administrator's task. */
export const prepared = (): string =>
  `printf %s ${quoted(bareTargets)} >${hostProgram} && modprobe -a nvmet nvmet-tcp && mkdir -p /etc/nvmet && ` +
  "cd /sys/kernel/config/nvmet/ports && { [ -d 1 ] || { mkdir 1 && cd 1 && echo tcp >addr_trtype && " +
  "echo ipv4 >addr_adrfam && echo 127.0.0.1 >addr_traddr && echo 4420 >addr_trsvcid; }; }";

/** Makes further targets of LIO on disks in memory: from `from` to `to`, of which one is a volume's. `most`: as many disks. */
export const filled = (from: number, to: number, most: number): string =>
  `[ -e /dev/ram${most - 1} ] || { modprobe brd rd_nr=${most} rd_size=4096 && udevadm settle --timeout=600; }; ` +
  python("iscsi", `fill ${iqn}:other /dev/ram ${from} ${to - 1}`);

/** Removes them, and what the bare writes have saved. */
export const emptied = (to: number): string =>
  `rm -f /etc/rtslib-fb-target/*.bare /etc/nvmet/*.bare; ${to > 1 ? python("iscsi", `empty ${iqn}:other - ${to - 1}`) : ":"}`;
