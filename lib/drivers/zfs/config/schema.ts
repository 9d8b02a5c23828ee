import type { InferOutput } from "valibot";
import { sshConnection } from "../../../schema/connecting.ts";
import { owner } from "../../../schema/owners.ts";
import { consistent, flag, host, oneOf, optional, path, record, scalar, text } from "../../../schema/parts.ts";
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
import { iscsi, nvmeof } from "./targets.ts";

/** How file systems of a plain storage host are shared: the blocks `nfs:` and `smb:`. */

const shareHost = host({ description: "the server as nodes reach it", example: "nas.example.org" });

/** Keys of the TrueNAS drivers, whose effect a ZFS property has on a plain host. */
const ofTrueNas = (keys: readonly string[], property: string): Readonly<Record<string, string>> =>
  Object.fromEntries(keys.map(key => [key, `it belongs to TrueNAS; here ${property} says who may do what`]));

const nfsKeys = [
  "shareAlldirs",
  "shareAllowedHosts",
  "shareAllowedNetworks",
  "shareMaprootUser",
  "shareMaprootGroup",
  "shareMapallUser",
  "shareMapallGroup",
];

const smbKeys = [
  "shareAllowedHosts",
  "shareDeniedHosts",
  "shareGuestOk",
  "shareGuestOnly",
  "shareBrowsable",
  "shareRecycleBin",
  "shareAccessBasedEnumeration",
  "shareTimeMachine",
];

const sharedBy = <const P extends string, const S extends string>(
  protocol: string,
  property: P,
  example: string,
  foreign: readonly string[],
  strategies: readonly ["setDatasetProperties", ...S[]],
  description: string,
) =>
  record(
    {
      shareHost,
      shareStrategy: oneOf(strategies, { description, example: "setDatasetProperties" }),
      shareStrategySetDatasetProperties: optional(
        record(
          {
            properties: optional(
              record(
                {
                  [property]: optional(
                    text({ description: `the ZFS property ${property} of a new volume`, absent: "inherited", example }),
                  ),
                } as Record<P, ReturnType<typeof optional<ReturnType<typeof text>>>>,
                { description: "properties that share a volume", ignored: { share: "OpenZFS has no such property" } },
              ),
            ),
          },
          { description: "settings of setDatasetProperties" },
        ),
      ),
    },
    { description: `sharing over ${protocol}`, ignored: ofTrueNas(foreign, property) },
  );

const byProperties = "how volumes are shared: by ZFS properties";

/** `nfs:` */
const nfs = consistent(
  sharedBy(
    ...(["NFS", "sharenfs", "rw,no_subtree_check,no_root_squash", nfsKeys] as const),
    ["setDatasetProperties", "crossmnt"],
    `${byProperties}, or by an export of the folder above them with the option crossmnt, which an administrator makes`,
  ),
  function* ({ shareStrategy, shareStrategySetDatasetProperties: set }) {
    if (shareStrategy === "crossmnt" && set !== undefined)
      yield [
        ["shareStrategySetDatasetProperties"],
        'belongs to the shareStrategy "setDatasetProperties"; with "crossmnt" the export above the volumes says who may do what',
      ];
  },
);
/** `smb:` */
const smb = sharedBy("SMB", "sharesmb", "on", smbKeys, ["setDatasetProperties"], byProperties);

const datasets = apart(record({ ...parents, cli, ...quotas, ...permissions(owner), ...acls }, datasetSection()));
const volumes = apart(record({ ...parents, cli, ...zvols }, zvolSection()));

/** Without it programs run where the controller runs, for a controller on the storage host. */
const remote = optional(sshConnection);

const local = { ignored: { sshConnection: "local drivers run zfs on the node itself" } };
const localCliOnly = { ...parents, cli: localCli };

const inlineProperty = record(
  {
    value: scalar({ description: "value of the property", example: "10M" }),
    allowOverride: optional(flag({ description: "whether a pod may set the property itself" }), true),
  },
  { description: "a ZFS property" },
);

const inlineSection = record(
  {
    datasetParentName: dataset({ description: "volumes are made below its child `v`", example: "tank/k8s/inline" }),
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
);

/** The sections of each driver. */
export const schemas = {
  genericNfs: record({ sshConnection: remote, zfs: datasets, nfs }),
  genericSmb: record({ sshConnection: remote, zfs: datasets, smb }),
  genericIscsi: record({ sshConnection: remote, zfs: volumes, iscsi }),
  genericNvmeof: record({ sshConnection: remote, zfs: volumes, nvmeof }),
  localDataset: record(
    { zfs: apart(record({ ...localCliOnly, ...quotas, ...permissions(owner), ...acls }, datasetSection())) },
    local,
  ),
  localZvol: record({ zfs: apart(record({ ...localCliOnly, ...zvols }, zvolSection())) }, local),
  inline: record({ zfs: inlineSection }, local),
};

type Sections<K extends keyof typeof schemas> = InferOutput<(typeof schemas)[K]>;

/** The sections of a driver with shared file systems. */
export type SharedConfig = Sections<"genericNfs"> | Sections<"genericSmb">;
/** The `zfs:` block of a driver whose volumes are file systems. */
export type DatasetSection = (SharedConfig | Sections<"localDataset">)["zfs"];
/** The `zfs:` block of a driver whose volumes are block devices. */
export type ZvolSection = (Sections<"genericIscsi"> | Sections<"localZvol">)["zfs"];
export type TargetConfig = Sections<"genericIscsi">;
export type SubsystemConfig = Sections<"genericNvmeof">;
export type InlineConfig = Sections<"inline">;
