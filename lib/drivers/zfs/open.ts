import type { Protocol } from "../../core/access.ts";
import type { Lease } from "../../io/lease.ts";
import type { StorageHost } from "../../io/script.ts";
import type { SshSettings } from "../../io/ssh/settings.ts";
import type { DriverFacts } from "../facts.ts";
import type { ConnectionIdentity, DriverPorts } from "../module.ts";
import type { VolumeStore } from "../store.ts";
import { blockLists } from "./blocks/block-list.ts";
import { ZfsCli } from "./cli/cli.ts";
import type { Programs } from "./cli/steps.ts";
import { streamsCli } from "./cli/streams.ts";
import type { DatasetSection, ZvolSection } from "./config/schema.ts";
import { DatasetNames } from "./names.ts";
import {
  type CopyTools,
  type FilesystemSettings,
  type StoreSettings,
  ZfsStorage,
  type ZvolSettings,
} from "./storage.ts";
import { DatasetStore } from "./store.ts";
import { choosable } from "./values.ts";
import type { ZfsVolume } from "./volume.ts";
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

/** The keys of `zfs:` about volumes that are file systems, and that are block devices. */
type FilesystemKeys = Extract<keyof DatasetSection, `dataset${"Enable" | "Permissions"}${string}`>;
type ZvolKeys = Extract<keyof ZvolSection, `zvol${string}`>;
/** The keys of `zfs:` that every store has, however ZFS is reached. */
export type StoreSection = Omit<DatasetSection, FilesystemKeys | "cli">;

/** The key about programs on the host. */
type CliSection = { readonly cli?: DatasetSection["cli"] };

/** What a share adds to the volumes of its store. */
export interface SharedVolumes {
  readonly protocol: Protocol;
  /** Properties of every new volume. */
  readonly values?: Readonly<Record<string, string>>;
  /** As StoreSettings has them. */
  readonly noteKeys?: StoreSettings["noteKeys"];
  readonly address?: StoreSettings["address"];
}

const pathsOf = ({ cli }: CliSection) => (cli && "paths" in cli ? cli.paths : undefined) ?? {};

/** How sudo is called for this section: it must not ask for a password. */
export const sudoOf = (section: CliSection): readonly [string, "-n"] => [pathsOf(section).sudo ?? "sudo", "-n"];

/** How programs are called for this section; accounts other than root need sudo for tools that change files. */
export function programsOf(section: CliSection, ssh: SshSettings | undefined): Programs {
  const sudo = sudoOf(section);
  const { zfs = "zfs", zpool = "zpool" } = pathsOf(section);
  const needed = section.cli?.sudoEnabled === true;
  const privileged = needed || (ssh !== undefined && ssh.username !== "root");
  return { zfs: needed ? [...sudo, zfs] : [zfs], zpool, privileged: privileged ? sudo : [] };
}

/** Volumes that are file systems, by the keys of a section. */
export function filesystems(section: Pick<DatasetSection, FilesystemKeys>): FilesystemSettings {
  const { datasetPermissionsMode: mode, datasetPermissionsUser: user, datasetPermissionsGroup: group } = section;
  const acls = (section.datasetPermissionsAcls ?? []).map(line => line.trim().split(/\s+/));
  const some = mode !== undefined || user !== undefined || group !== undefined || acls.length > 0;
  return {
    type: "filesystem",
    quotas: section.datasetEnableQuotas,
    reservation: section.datasetEnableReservation,
    permissions: some ? { mode, user, group, acls, aclsProgram: section.datasetPermissionsAclsBinary } : undefined,
  };
}

/** Volumes that are block devices, by the keys of a section. */
export const devices = (section: Pick<ZvolSection, ZvolKeys>): ZvolSettings => ({
  type: "volume",
  blocksize: section.zvolBlocksize,
  compression: section.zvolCompression,
  dedup: section.zvolDedup,
  thick: section.zvolEnableReservation,
});

/** What a store has, besides its section. */
interface StoreParts {
  readonly volumes: FilesystemSettings | ZvolSettings;
  readonly sharing: SharedVolumes;
  /** Called when the store is not needed any more. */
  readonly close: () => Promise<void>;
  /** Without them, the store gives and takes no copies. */
  readonly tools: (() => CopyTools) | undefined;
}

/** The store of a section on a host. Does no I/O. */
export function storeOn(
  zfs: Zfs,
  identity: ConnectionIdentity,
  section: StoreSection,
  { volumes, sharing, close, tools }: StoreParts,
): VolumeStore<ZfsVolume> {
  const { datasetParentName, detachedSnapshotsDatasetParentName } = section;
  const { driver, instanceId, maxIdBytes } = identity;
  const names = new DatasetNames(datasetParentName, detachedSnapshotsDatasetParentName, maxIdBytes);
  const settings: StoreSettings = {
    datasetProperties: section.datasetProperties ?? {},
    snapshotProperties: section.snapshotProperties ?? {},
    volumes,
    fixed: zfs.fixed,
    sharing: sharing.values ?? {},
    noteKeys: sharing.noteKeys ?? [],
    address: sharing.address,
    protocol: sharing.protocol,
    marks: { driver, instanceId, idOf: name => names.idOf(name) },
    dependents: section.deleteWithDependents,
    foreignSnapshots: section.foreignSnapshots,
  };
  return new DatasetStore(new ZfsStorage(identity, settings, names, zfs, tools), close);
}

/**
 * zfs(8) on the host of a connection: behind ssh, or this one where its file names none. `close` releases it. `resizer`: as ZfsCli's.
 */
export function cliOf(
  section: CliSection,
  ssh: SshSettings | undefined,
  ports: DriverPorts,
  resizer?: Pick<Zfs, "set">,
) {
  const local: Lease<StorageHost> = { value: ports.local, release: async () => {} };
  const { value: host, release } = ssh ? ports.ssh(ssh) : local;
  const programs = programsOf(section, ssh);
  const machine = ssh ? `ssh ${ssh.username}@${ssh.host.toLowerCase()}:${ssh.port}` : "local";
  const zfs = new ZfsCli(host, programs, resizer);
  const tools = (): CopyTools => ({
    zfs,
    streams: streamsCli(host, programs, machine),
    blocks: blockLists(host, programs),
  });
  return { zfs, tools, host, programs, close: release };
}
