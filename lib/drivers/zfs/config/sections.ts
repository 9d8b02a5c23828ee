import type { GenericSchema } from "valibot";
import { mode, owner } from "../../../schema/owners.ts";
import {
  type AboutRecord,
  consistent,
  filled,
  flag,
  list,
  mapOf,
  oneOf,
  optional,
  path,
  type Reading,
  record,
} from "../../../schema/parts.ts";
import { blockSize, dataset, overlap, shaped, templated, withKeys } from "../../../schema/storage.ts";

/** The keys of `zfs:`, in groups from which drivers compose their section. */

/** A mapping by names of ZFS properties: native ones, or user properties, which contain a colon (zfsprops(7)). */
export const byProperty = <S extends GenericSchema>(value: S, description: string, example: unknown) =>
  withKeys(
    /^(?:[a-z0-9_]+|(?=[^:]*:)[a-z0-9][a-z0-9:+._-]{0,254})$/,
    "must be a ZFS property, or a name with a colon out of lower-case letters, digits, and : + . _ -",
    mapOf(value, { description, example }),
  );

const properties = (description: string, example: unknown) =>
  optional(byProperty(templated({ description: "value; may hold {{ parameters.[key] }}" }), description, example));

/** Where volumes and detached snapshots are kept. */
export const parents = {
  datasetParentName: dataset({
    description: "the dataset below which every volume is one child; made when it does not exist",
    example: "tank/k8s/volumes",
  }),
  detachedSnapshotsDatasetParentName: dataset({
    description: "the dataset below which detached snapshots are kept; neither inside datasetParentName nor around it",
    example: "tank/k8s/snapshots",
  }),
  datasetProperties: properties("ZFS properties of new volumes, from the parameters of the StorageClass", {
    "org.example:owner": "{{ parameters.[csi.storage.k8s.io/pvc/namespace] }}",
  }),
  snapshotProperties: properties("ZFS properties of new snapshots, from the parameters of the VolumeSnapshotClass", {
    "org.example:kept": "yes",
  }),
  deleteWithDependents: optional(
    oneOf(["fail", "tombstone"], {
      description:
        "what becomes of a deleted volume that snapshots or clones still need: fail refuses, tombstone renames it and removes it after them",
    }),
    "fail",
  ),
  foreignSnapshots: optional(
    oneOf(["delete", "keep"], {
      description:
        "what becomes of snapshots that csimux did not take when their volume is deleted: delete destroys them with it, keep refuses the deletion and names them. Held snapshots (zfs hold) and clones keep a volume in either case",
    }),
    "delete",
  ),
};

const program = (description: string, fallback: string) =>
  optional(path({ description, absent: fallback, example: fallback }));

/** The programs on the storage host. */
export const cli = optional(
  record(
    {
      sudoEnabled: optional(flag({ description: "run zfs through sudo" }), false),
      paths: optional(
        record(
          {
            zfs: program("path of zfs on the storage host", "/sbin/zfs"),
            zpool: program("path of zpool on the storage host", "/sbin/zpool"),
            sudo: program("path of sudo on the storage host", "/usr/bin/sudo"),
            chroot: program("path of chroot on the storage host", "/usr/sbin/chroot"),
          },
          { description: "programs on the storage host" },
        ),
      ),
    },
    { description: "how zfs is run" },
  ),
);

/** Like `cli`, on the node itself: programs are found through PATH. */
export const localCli = optional(
  record(
    { sudoEnabled: optional(flag({ description: "run zfs through sudo" }), false) },
    { description: "how zfs is run", ignored: { paths: "local drivers find their programs through PATH" } },
  ),
);

/** Sizes of volumes that are file systems. */
export const quotas = {
  datasetEnableQuotas: optional(
    flag({ description: "limit a volume to its size (refquota); without it volumes have no size that counts" }),
    false,
  ),
  datasetEnableReservation: optional(
    flag({ description: "set the size of a volume aside for it (refreservation)" }),
    false,
  ),
};

/** Mode and owner of volumes that are file systems. `who` checks a user or group. */
export const permissions = (who: typeof owner) => ({
  datasetPermissionsMode: optional(
    mode({
      description: "permission bits of a new volume's top folder",
      absent: "left as zfs makes it",
      example: "0777",
    }),
  ),
  datasetPermissionsUser: optional(
    who({
      description: "owner of a new volume's top folder; a number is safest",
      absent: "left as it is",
      example: "0",
    }),
  ),
  datasetPermissionsGroup: optional(
    who({
      description: "group of a new volume's top folder; a number is safest",
      absent: "left as it is",
      example: "0",
    }),
  ),
});

/** Access control lists, set by a program. */
export const acls = {
  datasetPermissionsAcls: optional(
    list(filled({ description: "arguments of one call, without the path" }), {
      description: "access control lists of a new volume's top folder, one call of the program each",
      example: ["-m everyone@:full_set:fd:allow"],
    }),
  ),
  datasetPermissionsAclsBinary: optional(
    filled({ description: "the program that sets them: setfacl, nfs4_setfacl, nfs4xdr_setfacl" }),
    "setfacl",
  ),
};

const compression =
  /^$|^(?:on|off|lz4|lzjb|zle|gzip(?:-[1-9])?|zstd(?:-(?:[1-9]|1[0-9]))?|zstd-fast(?:-(?:[1-9]|[1-9]0|100|500|1000))?)$/i;
const dedup = /^$|^(?:on|off|verify|(?:sha256|sha512|skein|blake3)(?:,verify)?|edonr,verify)$/i;

/** democratic-csi takes only text for the value of a property, so that true and false inherit it; Helm makes them of on and off (YAML 1.1). */
const textOnly = (value: unknown): Reading | undefined =>
  typeof value === "boolean"
    ? {
        value: "",
        warning: [
          "true and false set nothing: the value of the parent applies",
          'write "on" or "off" in quotes, or remove it',
        ],
      }
    : undefined;

/** Volumes that are block devices (zvols). */
export const zvols = {
  zvolBlocksize: optional(
    blockSize({ description: "volblocksize of new volumes; cannot be changed later", unit: "bytes", example: "16K" }),
    "16K",
  ),
  zvolCompression: optional(
    shaped(compression, "must be a value of the ZFS property compression: on, off, lz4, zstd-3, gzip-9", {
      description: "compression of new volumes; empty inherits it from the parent",
      reading: textOnly,
      example: "lz4",
    }),
    "",
  ),
  zvolDedup: optional(
    shaped(dedup, "must be a value of the ZFS property dedup: on, off, verify, sha256", {
      description: "deduplication of new volumes; empty inherits it from the parent",
      reading: textOnly,
      example: "off",
    }),
    "",
  ),
  zvolEnableReservation: optional(
    flag({ description: "set the whole size of a volume aside for it; without it volumes are sparse" }),
    false,
  ),
};

const all = (keys: readonly string[], reason: string): Readonly<Record<string, string>> =>
  Object.fromEntries(keys.map(key => [key, reason]));

const datasetKeys = [...Object.keys(quotas), ...Object.keys(permissions(owner)), ...Object.keys(acls)];

/** Spellings in users' files. */
const ofClasses = { detachedSnapshots: "it is a parameter of VolumeSnapshotClasses" };
const parentAliases = { detachedSnapshotDatasetParentName: "detachedSnapshotsDatasetParentName" };

/** Describes the `zfs:` block of a driver whose volumes are file systems. `ignored`: further keys without effect. */
export const datasetSection = (ignored: Readonly<Record<string, string>> = {}): AboutRecord => ({
  description: "datasets and their properties",
  aliases: {
    ...parentAliases,
    datasetPermissionMode: "datasetPermissionsMode",
    datasetPermissionUser: "datasetPermissionsUser",
    datasetPermissionGroup: "datasetPermissionsGroup",
    datasetEnableQuota: "datasetEnableQuotas",
    datasetEnableReservations: "datasetEnableReservation",
  },
  ignored: {
    ...all(Object.keys(zvols), "volumes of this driver are file systems, not block devices"),
    ...ofClasses,
    ...ignored,
  },
});

/** Like `datasetSection`, for a driver whose volumes are block devices. */
export const zvolSection = (ignored: Readonly<Record<string, string>> = {}): AboutRecord => ({
  description: "zvols and their properties",
  aliases: { ...parentAliases, zvolBlockSize: "zvolBlocksize", zvolDeduplication: "zvolDedup" },
  ignored: {
    ...all(datasetKeys, "volumes of this driver are block devices, not file systems"),
    ...ofClasses,
    ...ignored,
  },
});

interface Parents {
  readonly datasetParentName: string;
  readonly detachedSnapshotsDatasetParentName: string;
}

/** The `zfs:` block with the rule that its two parents do not overlap. */
export const apart = <S extends GenericSchema<unknown, Parents>>(section: S): S =>
  consistent(section, function* ({ datasetParentName, detachedSnapshotsDatasetParentName }) {
    if (overlap(datasetParentName, detachedSnapshotsDatasetParentName))
      yield [
        ["detachedSnapshotsDatasetParentName"],
        "must not be datasetParentName, lie inside it or contain it: choose a dataset next to it",
      ];
  });
