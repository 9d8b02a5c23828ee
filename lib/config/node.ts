import type { InferOutput } from "valibot";
import { flagWords, type Segments } from "../core/access.ts";
import { anything, filled, flag, host, list, mapOf, optional, record, text, whole } from "../schema/parts.ts";
import { requirements } from "./requirements.ts";

const words = (description: string) => optional(list(text({ description: "one argument" }), { description }));

const checkFilesystem = record(
  {
    enabled: optional(flag({ description: "check the file system before it is mounted" }), false),
    customOptions: words("arguments for the checking tool, instead of csimux's defaults"),
    customFilesystemOptions: words('arguments after "--", for the tool of the file system'),
  },
  { description: "check of one file system type; repairs that need a decision are never made" },
);

const mount = record(
  {
    mount_flags: optional(
      text({
        description: "comma-separated flags for every mount of a share or disk; may contain credentials",
        example: "noatime",
        secret: true,
      }),
    ),
    checkFilesystem: optional(
      mapOf(checkFilesystem, { description: "by file system type: how it is checked before a mount" }),
    ),
  },
  { description: "mounting" },
);

const format = record(
  { customOptions: words("further arguments for mkfs") },
  { description: "format of one file system type" },
);

const addresses = (description: string) =>
  mapOf(host({ description: "the present name or address, without a port" }), { description });

/**
 * The `node:` block. In a connection file its mount settings apply to nodes that have the file, and to its controller.
 */
export const nodeSchema = record(
  {
    mount: optional(mount),
    format: optional(mapOf(format, { description: "by file system type: how it is formatted" })),
    hostpath: optional(
      record(
        {
          folders: optional(
            list(filled({ description: "an absolute path on nodes" }), {
              description: "folders below which volumes that are folders of a node may be mounted; absent: anywhere",
              example: ["/var/lib/csimux-volumes"],
            }),
          ),
        },
        { description: "volumes that are folders of a node" },
      ),
    ),
    "zfs-local": optional(
      record(
        {
          datasets: optional(
            list(filled({ description: "a dataset of a pool" }), {
              description: "datasets below which a node's own datasets and zvols may be used; absent: any",
              example: ["tank/k8s"],
            }),
          ),
        },
        { description: "volumes on pools of a node" },
      ),
    ),
    addresses: optional(
      addresses(
        "the present address of a storage by the one in the context of older volumes, for nodes; only in the main file",
      ),
    ),
    addressesByTopology: optional(
      list(
        record(
          { requirements, addresses: addresses("the address by which these nodes reach a storage, by the usual one") },
          { description: "addresses for the nodes of one topology" },
        ),
        {
          description:
            "further addresses, for nodes with a topology; the first entry that holds a node and names the storage decides; only in the main file",
          example: [{ requirements: { rack: "a" }, addresses: { "nas.example": "10.1.0.5" } }],
        },
      ),
    ),
    maxVolumes: optional(
      whole(
        {
          description:
            "the most volumes of csimux on one node, reported to the scheduler; only in the main file; absent: as many as fit",
          example: 64,
        },
        1,
        2 ** 31 - 1,
      ),
    ),
    csiProxy: optional(anything({ description: "endpoints on Windows; not used" })),
  },
  {
    description:
      "node settings for all volumes; in a connection file only mount_flags has an effect, on nodes that have the file",
  },
);

/** Addresses of storages for the nodes of a topology. */
export interface NodeAddresses {
  /** Keys without prefix; empty: all nodes. */
  readonly requirements: Segments;
  /** By the address of a volume's context, in lower case and without brackets. */
  readonly addresses: Readonly<Record<string, string>>;
}

/** Node settings for all volumes. */
export interface NodeSettings {
  readonly mountFlags: readonly string[];
  /** Folders below which volumes that are folders of a node may be; undefined: anywhere. */
  readonly hostFolders?: readonly string[] | undefined;
  /** Datasets below which volumes on pools of a node may be; undefined: any. */
  readonly hostDatasets?: readonly string[] | undefined;
  /** The present address of a storage by an older one, for nodes that report all of the topology; the first entry decides. */
  readonly addresses: readonly NodeAddresses[];
  /** The most volumes of one node (NodeGetInfo, max_volumes_per_node); undefined: as many as fit. */
  readonly maxVolumes?: number | undefined;
  /** By file system type. */
  readonly check: Readonly<Record<string, { readonly enabled: boolean; readonly options: readonly string[] }>>;
  /** By file system type: further arguments for mkfs. */
  readonly format: Readonly<Record<string, readonly string[]>>;
}

/** Hosts as tables of addresses compare them. */
const bareHosts = ([before, now]: readonly [string, string]): readonly [string, string] => [
  before.replace(/^\[|\]$/g, "").toLowerCase(),
  now.replace(/^\[|\]$/g, ""),
];

/** The settings of a validated `node:` block. */
export function nodeSettings(node: InferOutput<typeof nodeSchema> | undefined): NodeSettings {
  const checks = Object.entries(node?.mount?.checkFilesystem ?? {});
  const formats = Object.entries(node?.format ?? {});
  return {
    hostFolders: node?.hostpath?.folders,
    hostDatasets: node?.["zfs-local"]?.datasets,
    addresses: [...(node?.addressesByTopology ?? []), { requirements: {}, addresses: node?.addresses ?? {} }].map(
      ({ requirements, addresses }) => ({
        requirements,
        addresses: Object.fromEntries(Object.entries(addresses).map(bareHosts)),
      }),
    ),
    maxVolumes: node?.maxVolumes,
    mountFlags: flagWords([node?.mount?.mount_flags ?? ""]),
    check: Object.fromEntries(
      checks.map(([type, { enabled, customOptions, customFilesystemOptions }]) => [
        type,
        { enabled, options: [...(customOptions ?? []), ...(customFilesystemOptions ?? [])] },
      ]),
    ),
    format: Object.fromEntries(formats.map(([type, { customOptions }]) => [type, customOptions ?? []])),
  };
}

/** The present addresses of storages for a node that reports these keys, given without prefix. */
export const addressesFor = (all: readonly NodeAddresses[], node: Segments): Readonly<Record<string, string>> =>
  Object.assign(
    {},
    ...all
      .filter(({ requirements }) => Object.entries(requirements).every(([key, value]) => node[key] === value))
      .map(({ addresses }) => addresses)
      .reverse(),
  );
