import type { Protocol } from "../../core/access.ts";
import type { Lease } from "../../io/lease.ts";
import type { StorageHost } from "../../io/script.ts";
import type { DriverFacts } from "../facts.ts";
import type { ConnectionIdentity, DriverPorts } from "../module.ts";
import { ZfsCli } from "./cli/cli.ts";
import type { CommandPrefixes } from "./cli/steps.ts";
import type { DatasetSection, Ssh, ZvolSection } from "./config/schema.ts";
import { DatasetNames } from "./names.ts";
import { ConnectionContext, type FilesystemSettings, type StoreSettings, type VolumeSettings } from "./storage.ts";
import { DatasetStore } from "./store.ts";
import { choosable } from "./values.ts";
import type { Zfs } from "./zfs.ts";

/** Parameters of classes that every driver on ZFS reads. */
export const zfsParameters: DriverFacts["parameters"] = {
  volume: [...["detachedVolumesFromSnapshots", "detachedVolumesFromVolumes"], ...choosable.map(name => `zfs.${name}`)],
  snapshot: ["detachedSnapshots"],
};

/** The parent datasets of volumes and of detached snapshots, on the host whose API or shell is used. */
export const zfsTerritory: DriverFacts["territory"] = {
  system: "zfs",
  hosts: [
    ["httpConnection", "host"],
    ["sshConnection", "host"],
  ],
  trees: [
    ["zfs", "datasetParentName"],
    ["zfs", "detachedSnapshotsDatasetParentName"],
  ],
  marked: "some",
};

/** The keys of `zfs:` that every store has, however ZFS is reached. */
export type StoreSection = Pick<
  DatasetSection,
  | "datasetParentName"
  | "detachedSnapshotsDatasetParentName"
  | "datasetProperties"
  | "snapshotProperties"
  | "deleteWithDependents"
  | "foreignSnapshots"
>;

/** The keys that say how file systems are made. */
type FilesystemSection = Pick<
  DatasetSection,
  | "datasetEnableQuotas"
  | "datasetEnableReservation"
  | "datasetPermissionsMode"
  | "datasetPermissionsUser"
  | "datasetPermissionsGroup"
  | "datasetPermissionsAcls"
  | "datasetPermissionsAclsBinary"
>;

/** The keys that say how block devices are made. */
type DeviceSection = Pick<ZvolSection, "zvolBlocksize" | "zvolCompression" | "zvolDedup" | "zvolEnableReservation">;

/** The key that says how zfs is called. */
type CliSection = { readonly cli?: DatasetSection["cli"] };

/** What a share adds to the volumes of its store. */
export interface ShareSettings {
  readonly protocol: Protocol;
  /** Properties of every new volume. */
  readonly values?: Readonly<Record<string, string>>;
  /** As StoreSettings.noteKeys. */
  readonly noteKeys?: readonly string[];
}

/** The host of a connection: behind ssh, or this one when its file names none. */
export const hostOf = (ssh: Ssh | undefined, ports: DriverPorts): Lease<StorageHost> =>
  ssh ? ports.ssh(ssh) : { value: ports.local, release: async () => {} };

type ProgramPaths = Readonly<Partial<Record<"zfs" | "zpool" | "sudo", string | undefined>>>;

const pathsOf = ({ cli }: CliSection): ProgramPaths => (cli && "paths" in cli ? (cli.paths ?? {}) : {});

/** How sudo is called for this section: it must not ask for a password. */
export const sudoOf = (section: CliSection): readonly [string, "-n"] => [pathsOf(section).sudo ?? "sudo", "-n"];

/** How zfs is called for this section; an account other than root needs sudo for the tools of files. */
export function wordsOf(section: CliSection, ssh: Ssh | undefined): CommandPrefixes {
  const sudo = sudoOf(section);
  const paths = pathsOf(section);
  const zfs = paths.zfs ?? "zfs";
  const needed = section.cli?.sudoEnabled === true;
  const privileged = needed || (ssh !== undefined && ssh.username !== "root");
  const zpool = paths.zpool ?? "zpool";
  return { zfs: needed ? [...sudo, zfs] : [zfs], zpool, privileged: privileged ? sudo : [] };
}

/** Volumes that are file systems, as the section says. */
export function filesystems(section: FilesystemSection): FilesystemSettings {
  const mode = section.datasetPermissionsMode;
  const user = section.datasetPermissionsUser;
  const group = section.datasetPermissionsGroup;
  const acls = (section.datasetPermissionsAcls ?? []).map(line => line.trim().split(/\s+/));
  const some = mode !== undefined || user !== undefined || group !== undefined || acls.length > 0;
  return {
    type: "filesystem",
    quotas: section.datasetEnableQuotas,
    reservation: section.datasetEnableReservation,
    permissions: some ? { mode, user, group, acls, aclsProgram: section.datasetPermissionsAclsBinary } : undefined,
  };
}

/** Volumes that are block devices, as the section says. */
export const devices = (section: DeviceSection): VolumeSettings => ({
  type: "volume",
  blocksize: section.zvolBlocksize,
  compression: section.zvolCompression,
  dedup: section.zvolDedup,
  thick: section.zvolEnableReservation,
});

/** The store of a section on a host. Does no I/O; `close` is called when the store is not needed any more. */
export function storeOn(
  zfs: Zfs,
  identity: ConnectionIdentity,
  section: StoreSection,
  volumes: FilesystemSettings | VolumeSettings,
  sharing: ShareSettings,
  close: () => Promise<void>,
): DatasetStore {
  const names = new DatasetNames(
    section.datasetParentName,
    section.detachedSnapshotsDatasetParentName,
    identity.maxIdBytes,
  );
  const { driver, instanceId } = identity;
  const settings: StoreSettings = {
    parent: section.datasetParentName,
    detachedParent: section.detachedSnapshotsDatasetParentName,
    datasetProperties: section.datasetProperties ?? {},
    snapshotProperties: section.snapshotProperties ?? {},
    volumes,
    fixed: zfs.fixed,
    sharing: sharing.values ?? {},
    noteKeys: sharing.noteKeys ?? [],
    protocol: sharing.protocol,
    marks: { driver, instanceId, idOf: name => names.idOf(name) },
    dependents: section.deleteWithDependents,
    foreignSnapshots: section.foreignSnapshots,
  };
  return new DatasetStore(new ConnectionContext(identity, settings, names, zfs), close);
}

/** zfs(8) on the host of a connection, and how that is let go. */
export function cliOf(section: CliSection, ssh: Ssh | undefined, ports: DriverPorts) {
  const { value: host, release } = hostOf(ssh, ports);
  const words = wordsOf(section, ssh);
  return { zfs: new ZfsCli(host, words), host, words, close: release };
}
