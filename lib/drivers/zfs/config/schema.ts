import type { InferOutput } from "valibot";
import { sshConnection } from "../../../schema/connecting.ts";
import { flag, optional, owner, path, record, scalar } from "../../../schema/parts.ts";
import { dataset } from "../../../schema/storage.ts";
import {
  acls,
  apart,
  byProperty,
  cli,
  datasetSection,
  localCli,
  parents,
  permissions,
  quotas,
  zvolSection,
  zvols,
} from "./sections.ts";
import { nfs, smb } from "./shares.ts";
import { iscsi, nvmeof } from "./targets.ts";

const datasets = apart(record({ ...parents, cli, ...quotas, ...permissions(owner), ...acls }, datasetSection()));
const volumes = apart(record({ ...parents, cli, ...zvols }, zvolSection()));

/** Without it everything runs where the controller runs, for a controller on the storage host. */
const host = optional(sshConnection);

/** The sections of zfs-generic-nfs. */
export const zfsGenericNfsSchema = record({ sshConnection: host, zfs: datasets, nfs });
/** The sections of zfs-generic-smb. */
export const zfsGenericSmbSchema = record({ sshConnection: host, zfs: datasets, smb });
/** The sections of zfs-generic-iscsi. */
export const zfsGenericIscsiSchema = record({ sshConnection: host, zfs: volumes, iscsi });
/** The sections of zfs-generic-nvmeof. */
export const zfsGenericNvmeofSchema = record({ sshConnection: host, zfs: volumes, nvmeof });

const local = { ignored: { sshConnection: "local drivers run zfs on the node itself" } };

/** The sections of zfs-local-dataset. */
export const zfsLocalDatasetSchema = record(
  { zfs: apart(record({ ...parents, cli: localCli, ...quotas, ...permissions(owner), ...acls }, datasetSection())) },
  local,
);
/** The sections of zfs-local-zvol. */
export const zfsLocalZvolSchema = record(
  { zfs: apart(record({ ...parents, cli: localCli, ...zvols }, zvolSection())) },
  local,
);

const inlineProperty = record(
  {
    value: scalar({ description: "value of the property", example: "10M" }),
    allowOverride: optional(flag({ description: "whether a pod may set the property itself" }), true),
  },
  { description: "a ZFS property" },
);

/** The sections of zfs-local-ephemeral-inline. */
export const zfsInlineSchema = record(
  {
    zfs: record(
      {
        datasetParentName: dataset({
          description: "volumes are made below its child `v`",
          example: "tank/k8s/inline",
        }),
        chroot: optional(path({ description: "folder of the node's own root, to run zfs there", example: "/host" })),
        properties: optional(
          byProperty(inlineProperty, "ZFS properties of every inline volume", {
            refquota: { value: "10M", allowOverride: false },
          }),
        ),
        cli,
      },
      {
        description: "the dataset of inline volumes",
        ignored: { detachedSnapshotsDatasetParentName: "inline volumes have no snapshots" },
      },
    ),
  },
  local,
);

/** The `zfs:` block of a driver whose volumes are file systems. */
export type DatasetSection =
  | InferOutput<typeof zfsGenericNfsSchema>["zfs"]
  | InferOutput<typeof zfsLocalDatasetSchema>["zfs"];
/** The `zfs:` block of a driver whose volumes are block devices. */
export type ZvolSection =
  | InferOutput<typeof zfsGenericIscsiSchema>["zfs"]
  | InferOutput<typeof zfsLocalZvolSchema>["zfs"];
/** The sections of zfs-generic-iscsi. */
export type IscsiConfig = InferOutput<typeof zfsGenericIscsiSchema>;
/** The sections of zfs-generic-nvmeof. */
export type NvmeofConfig = InferOutput<typeof zfsGenericNvmeofSchema>;
/** The sections of zfs-local-ephemeral-inline. */
export type InlineConfig = InferOutput<typeof zfsInlineSchema>;
/** The `sshConnection:` block. */
export type Ssh = NonNullable<InferOutput<typeof zfsGenericNfsSchema>["sshConnection"]>;
