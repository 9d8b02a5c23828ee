import * as filesystem from "./filesystem.ts";
import * as iscsi from "./iscsi.ts";
import * as nvmet from "./nvmet.ts";
import { type QueryOptions, queried } from "./query.ts";
import { runOnetime } from "./replication.ts";
import * as sharing from "./sharing.ts";
import type { Nas } from "./state.ts";
import { versionText } from "./versions.ts";
import * as removal from "./zfs/dataset-removal.ts";
import * as datasets from "./zfs/datasets.ts";
import * as resources from "./zfs/resources.ts";
import * as snapshotClones from "./zfs/snapshot-clones.ts";
import * as snapshotResources from "./zfs/snapshot-resources.ts";
import * as snapshots from "./zfs/snapshots.ts";

/** One method of the API. */
export interface Method {
  readonly run: (nas: Nas, params: readonly unknown[]) => unknown;
  /** The role that it asks for; undefined: a login is enough. */
  readonly role?: string;
  readonly job?: true;
  /** The job that the method starts by itself and waits for. */
  readonly starts?: (
    nas: Nas,
    params: readonly unknown[],
  ) => { readonly method: string; readonly params: readonly unknown[]; readonly run: () => unknown } | undefined;
  /** First and last version that has it, such as 2510. */
  readonly since?: number;
  readonly until?: number;
}

type Methods = Readonly<Record<string, Method>>;

const crud = (
  name: string,
  role: string,
  run: Partial<Record<"create" | "update" | "delete" | "query", Method["run"]>>,
  limits: Partial<Method> = {},
): Methods =>
  Object.fromEntries(
    Object.entries(run).map(([verb, each]) => [
      `${name}.${verb}`,
      { run: each, role: verb === "query" ? role.replace(/_WRITE$/, "_READ") : role, ...limits },
    ]),
  );

const snapshotMethods = (name: string, limits: Partial<Method>): Methods => ({
  ...crud(
    name,
    "SNAPSHOT_WRITE",
    { create: snapshots.create, update: snapshots.update, query: snapshots.query },
    limits,
  ),
  [`${name}.delete`]: { run: snapshots.remove, role: "SNAPSHOT_DELETE", ...limits },
  [`${name}.clone`]: { run: snapshotClones.clone, role: "SNAPSHOT_WRITE", ...limits },
  [`${name}.hold`]: { run: snapshots.hold, role: "SNAPSHOT_WRITE", ...limits },
  [`${name}.release`]: { run: snapshots.release, role: "SNAPSHOT_WRITE", ...limits },
  [`${name}.rollback`]: { run: snapshots.rollback, role: "SNAPSHOT_WRITE", ...limits },
});

const storage: Methods = {
  ...crud("pool.dataset", "DATASET_WRITE", { update: datasets.update, query: datasets.query }),
  "pool.dataset.create": { run: datasets.create, role: "DATASET_WRITE", starts: datasets.listsForSmb },
  "pool.dataset.encryption_summary": { run: datasets.encryptionSummary, role: "DATASET_READ", job: true },
  "pool.dataset.get_instance": { run: datasets.getInstance, role: "DATASET_READ" },
  "pool.dataset.delete": { run: removal.remove, role: "DATASET_DELETE" },
  "pool.dataset.rename": { run: removal.rename, role: "DATASET_WRITE", since: 2510 },
  "pool.dataset.promote": { run: removal.promote, role: "DATASET_WRITE" },
  "zfs.resource.query": { run: resources.query, role: "ZFS_RESOURCE_READ", since: 2510 },
  "zfs.resource.destroy": { run: resources.destroy, role: "ZFS_RESOURCE_DELETE", since: 2600 },
  ...snapshotMethods("zfs.snapshot", { until: 2504 }),
  ...snapshotMethods("pool.snapshot", { since: 2510 }),
  "pool.snapshot.rename": { run: snapshots.rename, role: "SNAPSHOT_WRITE", since: 2510 },
  "zfs.resource.snapshot.create": { run: snapshotResources.createResource, role: "SNAPSHOT_WRITE", since: 2600 },
  "zfs.resource.snapshot.query": { run: snapshotResources.queryResource, role: "SNAPSHOT_READ", since: 2600 },
  "zfs.resource.snapshot.destroy": { run: snapshotResources.destroyResource, role: "SNAPSHOT_DELETE", since: 2600 },
  "zfs.resource.snapshot.rename": { run: snapshotResources.renameResource, role: "SNAPSHOT_WRITE", since: 2600 },
  "zfs.resource.snapshot.clone": { run: snapshotResources.cloneResource, role: "SNAPSHOT_WRITE", since: 2600 },
  // CORE has neither this nor zfs.snapshot.update (plugins/replication.py and zfs.py of 13.0-U6.3).
  "replication.run_onetime": { run: runOnetime, role: "REPLICATION_TASK_WRITE", job: true, since: 2000 },
  "zfs.snapshot.update": { run: snapshots.update, role: "SNAPSHOT_WRITE", since: 2000, until: 2504 },
  "filesystem.setperm": { run: filesystem.setperm, role: "FILESYSTEM_ATTRS_WRITE", job: true },
  "filesystem.chown": { run: filesystem.chown, role: "FILESYSTEM_ATTRS_WRITE", job: true },
  "filesystem.setacl": { run: filesystem.setacl, role: "FILESYSTEM_ATTRS_WRITE", job: true },
  "filesystem.getacl": { run: filesystem.getacl, role: "FILESYSTEM_ATTRS_READ" },
  "filesystem.stat": { run: filesystem.stat, role: "FILESYSTEM_ATTRS_READ" },
};

const { rowsOf, deletedFrom, updatedIn } = sharing;
const shares: Methods = {
  ...crud("sharing.nfs", "SHARING_NFS_WRITE", {
    create: sharing.createNfs,
    update: updatedIn("nfs", "NFSShare"),
    delete: deletedFrom("nfs", "NFSShare"),
    query: rowsOf("nfs", "sharing.nfs.query"),
  }),
  ...crud("sharing.smb", "SHARING_SMB_WRITE", {
    create: sharing.createSmb,
    update: updatedIn("smb", "SMBShare"),
    delete: deletedFrom("smb", "SMBShare"),
    query: rowsOf("smb", "sharing.smb.query"),
  }),
};

const ofIscsi = "SHARING_ISCSI_WRITE";
const blocks: Methods = {
  "iscsi.global.config": { run: iscsi.globalConfig, role: "SHARING_ISCSI_READ" },
  ...crud("iscsi.target", ofIscsi, {
    create: iscsi.createTarget,
    update: iscsi.updateTarget,
    delete: iscsi.deleteTarget,
    query: rowsOf("target", "iscsi.target.query"),
  }),
  ...crud("iscsi.extent", ofIscsi, {
    create: iscsi.createExtent,
    delete: iscsi.deleteExtent,
    query: rowsOf("extent", "iscsi.extent.query"),
  }),
  ...crud("iscsi.targetextent", ofIscsi, {
    create: iscsi.createLink,
    delete: deletedFrom("targetextent", "iSCSITargetToExtent"),
    query: rowsOf("targetextent", "iscsi.targetextent.query"),
  }),
  ...crud("iscsi.portal", ofIscsi, { query: rowsOf("portal", "iscsi.portal.query") }),
  ...crud("iscsi.initiator", ofIscsi, { query: rowsOf("initiator", "iscsi.initiator.query") }),
  ...crud("iscsi.auth", ofIscsi, { query: rowsOf("iscsiAuth", "iscsi.auth.query") }),
};

const ofNvme = "SHARING_NVME_TARGET_WRITE";
const since = { since: 2510 };
const fabrics: Methods = {
  "nvmet.global.config": { run: nvmet.globalConfig, role: "SHARING_NVME_TARGET_READ", ...since },
  "nvmet.global.sessions": { run: nvmet.sessions, role: "SHARING_NVME_TARGET_READ", ...since },
  ...crud(
    "nvmet.subsys",
    ofNvme,
    { create: nvmet.createSubsys, delete: nvmet.deleteSubsys, query: rowsOf("nvmetSubsys", "nvmet.subsys.query") },
    since,
  ),
  ...crud(
    "nvmet.namespace",
    ofNvme,
    {
      create: nvmet.createNamespace,
      delete: deletedFrom("nvmetNamespace", "NVMetNamespace"),
      query: nvmet.queryNamespaces,
    },
    since,
  ),
  ...crud("nvmet.port", ofNvme, { create: nvmet.createPort, query: rowsOf("nvmetPort", "nvmet.port.query") }, since),
  ...crud("nvmet.host", ofNvme, { create: nvmet.createHost, query: rowsOf("nvmetHost", "nvmet.host.query") }, since),
  ...crud(
    "nvmet.port_subsys",
    ofNvme,
    {
      create: nvmet.createPortLink,
      delete: deletedFrom("nvmetPortSubsys", "NVMetPortSubsys"),
      query: nvmet.queryPortLinks,
    },
    since,
  ),
  ...crud(
    "nvmet.host_subsys",
    ofNvme,
    {
      create: nvmet.createHostLink,
      delete: deletedFrom("nvmetHostSubsys", "NVMetHostSubsys"),
      query: nvmet.queryHostLinks,
    },
    since,
  ),
};

const services = (nas: Nas, [filters, options]: readonly unknown[]): unknown =>
  queried(
    Object.entries(nas.state.services).map(([service, state], index) => ({
      id: index + 1,
      service,
      state,
      enable: true,
      pids: [],
    })),
    filters,
    (options ?? {}) as QueryOptions,
  );

/** The other fields of a healthy pool. */
const quiet = {
  ...{ guid: "1", scan: null, expand: null, warning: false, status_code: "OK", status_detail: null, topology: null },
  ...{ allocated: 0, freeing: 0, fragmentation: "0", dedup_table_size: 0, dedup_table_quota: "0" },
  ...{ size_str: "0", allocated_str: "0", free_str: "0", freeing_str: "0" },
  autotrim: { value: "off", rawvalue: "off", parsed: "off", source: "DEFAULT" },
};

const pools = (nas: Nas, [filters, options]: readonly unknown[]): unknown =>
  queried(
    Object.entries(nas.state.pools).map(([name, size], index) => ({
      id: index + 1,
      name,
      path: `/mnt/${name}`,
      status: "ONLINE",
      healthy: true,
      size,
      free: size,
      ...quiet,
      ...(nas.number >= 2600 ? { all_sed: false } : {}),
    })),
    filters,
    (options ?? {}) as QueryOptions,
  );

const machine: Methods = {
  "system.version": { run: ({ version, beta }) => versionText(version) + (beta ? "-BETA.3" : "") },
  "system.version_short": { run: ({ version }) => versionText(version).replace(/^TrueNAS-(?:SCALE-)?/, "") },
  "system.product_type": {
    run: ({ number }) => (number < 2000 ? "CORE" : number < 2504 ? "SCALE" : "COMMUNITY_EDITION"),
  },
  "service.query": { run: services, role: "SERVICE_READ" },
  "service.control": { run: () => true, role: "SERVICE_WRITE", job: true, since: 2510 },
  "service.reload": { run: () => true, role: "SERVICE_WRITE", until: 2510 },
  "pool.query": { run: pools, role: "POOL_READ" },
  "failover.status": { run: () => "SINGLE", role: "FAILOVER_READ" },
};

const all: Methods = { ...storage, ...shares, ...blocks, ...fabrics, ...machine };

/** The method of this name, where the version has it. */
export function methodOf(number: number, name: string): Method | undefined {
  const method = Object.hasOwn(all, name) ? all[name] : undefined;
  if (!method || number < (method.since ?? 0) || number > (method.until ?? 9999)) return undefined;
  return method;
}
