import { setTimeout as pause } from "node:timers/promises";
import type { Shell } from "./shells.ts";
import { datasetOf, type Subject } from "./subject.ts";

/** One thing that users wait for, done in three ways for the volume or snapshot of a name. */
export interface Operation {
  readonly title: string;
  /** It must be done in two round trips. */
  readonly inTwo?: true;
  /** How often it is done in each way; a multiple of three. */
  readonly times: number;
  /** Through csimux. */
  csimux(subject: Subject, name: string): Promise<unknown>;
  /** The bare commands for the same result in one line: the floor. */
  floor(shell: Shell, name: string): Promise<unknown>;
  /** The commands of democratic-csi, one after another. */
  reference(shell: Shell, name: string): Promise<unknown>;
}

const nfs = `${datasetOf("nfs")}/v`;
const iscsi = `${datasetOf("iscsi")}/v`;
const bytes = 64 << 20;
const own = (name: string, driver: string): string =>
  `-o democratic-csi:csi_volume_name=${name} -o democratic-csi:managed_resource=true -o democratic-csi:volume_context_provisioner_driver=${driver}`;
const context = (name: string): string =>
  `democratic-csi:csi_share_volume_context='{"node_attach_driver":"nfs","server":"127.0.0.1","share":"/${nfs}/${name}"}'`;
const success = "democratic-csi:provision_success=true";
const sharenfs = "sharenfs=rw,no_root_squash,insecure";

async function oneByOne(shell: Shell, lines: readonly string[]): Promise<void> {
  for (const line of lines) await shell.run(line);
}

const iqn = "iqn.2025-01.lab.csimux:bench";
const attributes = ["authentication=0", "generate_node_acls=1", "cache_dynamic_acls=1", "demo_mode_write_protect=0"];

const targetText = (name: string): string =>
  [
    `cd /iscsi`,
    `create ${iqn}:${name}`,
    `cd /iscsi/${iqn}:${name}/tpg1`,
    ...attributes.map(each => `set attribute ${each}`),
    "cd /backstores/block",
    `create ${name} /dev/zvol/${iscsi}/${name}`,
    `cd /iscsi/${iqn}:${name}/tpg1/luns`,
    `create /backstores/block/${name}`,
  ].join("\n");
const noTargetText = (name: string): string =>
  ["cd /iscsi", `delete ${iqn}:${name}`, "cd /backstores/block", `delete ${name}`].join("\n");
const targetcli = (text: string): string => `echo '${text}' | targetcli >/dev/null`;
const appears = (name: string): string => `until [ -e /dev/zvol/${iscsi}/${name} ]; do sleep 0.1; done`;

const rows = "name,used,avail,refer,type,mountpoint";

/** Volumes that snapshots are taken of, made beforehand. */
export const snapshotted = "snapshotted";

export const operations: readonly Operation[] = [
  {
    title: "CreateVolume nfs",
    inTwo: true,
    times: 12,
    csimux: (subject, name) => subject.create("nfs", name),
    floor: (shell, name) =>
      shell.run(
        `zfs create -o refquota=${bytes} -o ${sharenfs} ${own(name, "zfs-generic-nfs")} ${nfs}/${name} && ` +
          `chown 0:0 /${nfs}/${name} && chmod 0777 /${nfs}/${name} && zfs set ${context(name)} ${success} ${nfs}/${name}`,
      ),
    reference: (shell, name) =>
      oneByOne(shell, [
        `zfs get -Hp -o name,property,value,received,source volsize,refquota ${nfs}/${name} || :`,
        `zfs create -p ${own(name, "zfs-generic-nfs")} ${nfs}/${name}`,
        `zfs set refquota=${bytes} ${nfs}/${name}`,
        `zfs get -Hp -o name,property,value,received,source mountpoint,refquota,compression ${nfs}/${name}`,
        "whoami",
        `chmod 0777 /${nfs}/${name}`,
        "whoami",
        `chown 0:0 /${nfs}/${name}`,
        `zfs set ${sharenfs} ${nfs}/${name}`,
        `zfs get -Hp -o name,property,value,received,source mountpoint ${nfs}/${name}`,
        `zfs set ${context(name)} ${nfs}/${name}`,
        `zfs set ${success} ${nfs}/${name}`,
      ]),
  },
  {
    title: "DeleteVolume nfs",
    inTwo: true,
    times: 12,
    csimux: (subject, name) => subject.remove("nfs", name),
    floor: (shell, name) => shell.run(`zfs destroy -r ${nfs}/${name}`),
    async reference(shell, name) {
      await oneByOne(shell, [
        `zfs get -Hp -o name,property,value,received,source mountpoint,origin,refquota,compression ${nfs}/${name}`,
        `zfs inherit sharenfs ${nfs}/${name}`,
      ]);
      await pause(2000);
      await oneByOne(shell, [
        `zfs list -Hp -t snapshot -o name,democratic-csi:managed_resource ${nfs}/${name}`,
        `zfs destroy -r -f -p ${nfs}/${name}`,
      ]);
    },
  },
  {
    title: "CreateSnapshot nfs",
    times: 12,
    csimux: (subject, name) => subject.snapshot("nfs", snapshotted, name),
    floor: (shell, name) =>
      shell.run(
        `zfs snapshot -o democratic-csi:csi_snapshot_name=${name} -o democratic-csi:csi_snapshot_source_volume_id=${snapshotted} ` +
          `-o democratic-csi:managed_resource=true -o ${success} ${nfs}/${snapshotted}@${name}`,
      ),
    reference: (shell, name) =>
      oneByOne(shell, [
        `zfs list -r -Hp -t filesystem -o ${rows} ${datasetOf("nfs")}/s >/dev/null || :`,
        `zfs list -r -Hp -t snapshot -o ${rows} ${nfs} >/dev/null`,
        `zfs snapshot -o democratic-csi:csi_snapshot_name=${name} -o democratic-csi:managed_resource=true ${nfs}/${snapshotted}@${name}`,
        `zfs get -Hp -o name,property,value,received,source all ${nfs}/${snapshotted}@${name}`,
        `zfs set ${success} ${nfs}/${snapshotted}@${name}`,
      ]),
  },
  {
    title: "CreateVolume iscsi",
    times: 6,
    csimux: (subject, name) => subject.create("iscsi", name),
    floor: (shell, name) =>
      shell.run(
        `zfs create -s -b 16384 -V ${bytes} ${own(name, "zfs-generic-iscsi")} -o democratic-csi:iscsi_assets_name=${name} ${iscsi}/${name} && ` +
          `${appears(name)}; ${targetcli(targetText(name))} && zfs set ${context(name)} ${success} ${iscsi}/${name}`,
      ),
    reference: (shell, name) =>
      oneByOne(shell, [
        `zfs get -Hp -o name,property,value,received,source volsize,refquota ${iscsi}/${name} || :`,
        `zfs create -p -o refreservation=0 ${own(name, "zfs-generic-iscsi")} -b 16384 -V ${bytes} ${iscsi}/${name}`,
        `zfs set volsize=${bytes} ${iscsi}/${name}`,
        // It does not wait for the device, which its slower way usually gives time enough.
        `${appears(name)}; ${targetcli(targetText(name))}`,
        `zfs set democratic-csi:iscsi_assets_name=${name} ${iscsi}/${name}`,
        `zfs set ${context(name)} ${iscsi}/${name}`,
        `zfs set ${success} ${iscsi}/${name}`,
      ]),
  },
  {
    title: "DeleteVolume iscsi",
    times: 6,
    csimux: (subject, name) => subject.remove("iscsi", name),
    floor: (shell, name) =>
      shell.run(
        `${targetcli(noTargetText(name))}; n=0; until zfs destroy -r ${iscsi}/${name}; do n=$((n+1)); [ $n -lt 20 ] || exit 1; sleep 0.2; done`,
      ),
    reference: (shell, name) =>
      oneByOne(shell, [
        `zfs get -Hp -o name,property,value,received,source mountpoint,origin,refquota,compression ${iscsi}/${name}`,
        `zfs get -Hp -o name,property,value,received,source democratic-csi:iscsi_assets_name ${iscsi}/${name}`,
        targetcli(noTargetText(name)),
        `zfs list -Hp -t snapshot -o name,democratic-csi:managed_resource ${iscsi}/${name}`,
        `n=0; until zfs destroy -r -f -p ${iscsi}/${name}; do n=$((n+1)); [ $n -lt 12 ] || exit 1; sleep 5; done`,
      ]),
  },
];
