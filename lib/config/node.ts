import type { InferOutput } from "valibot";
import { anything, filled, flag, list, mapOf, optional, record, text } from "../schema/parts.ts";

const words = (description: string) => optional(list(text({ description: "one argument" }), { description }));

const checkFilesystem = record(
  {
    enabled: optional(flag({ description: "check the file system before it is mounted" }), false),
    customOptions: words("arguments of the checking tool, instead of those of csimux"),
    customFilesystemOptions: words('arguments behind "--", for the tool of the file system'),
  },
  { description: "checking one file system; nothing is repaired that needs a decision" },
);

const mount = record(
  {
    mount_flags: optional(
      text({
        description: "comma-separated flags for every mount of a share or disk; may hold credentials",
        example: "noatime",
        secret: true,
      }),
    ),
    checkFilesystem: optional(
      mapOf(checkFilesystem, { description: "by file system: how it is checked before a mount" }),
    ),
  },
  { description: "mounting" },
);

const format = record({ customOptions: words("more arguments of mkfs") }, { description: "making one file system" });

/** The `node:` block. What a connection's says of mounts counts on nodes that have its file, and for its controller. */
export const nodeSchema = record(
  {
    mount: optional(mount),
    format: optional(mapOf(format, { description: "by file system: how it is made" })),
    hostpath: optional(
      record(
        {
          folders: optional(
            list(filled({ description: "an absolute path on nodes" }), {
              description:
                "volumes that are folders of a node are mounted only from below these; absent: from anywhere",
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
              description: "datasets and zvols of a node's own pools are used only from below these; absent: any",
              example: ["tank/k8s"],
            }),
          ),
        },
        { description: "volumes on pools of a node" },
      ),
    ),
    csiProxy: optional(anything({ description: "endpoints on Windows; not used" })),
  },
  {
    description:
      "what nodes do with every volume; in a connection file only mount_flags counts, on nodes that have the file",
  },
);

/** What nodes do with every volume. */
export interface NodeSettings {
  readonly mountFlags: readonly string[];
  /** Folders below which volumes that are folders of a node may lie; undefined: anywhere. */
  readonly hostFolders?: readonly string[] | undefined;
  /** Datasets below which volumes on pools of a node may lie; undefined: any. */
  readonly hostDatasets?: readonly string[] | undefined;
  /** By file system. */
  readonly check: Readonly<Record<string, { readonly enabled: boolean; readonly options: readonly string[] }>>;
  /** By file system: more arguments of mkfs. */
  readonly format: Readonly<Record<string, readonly string[]>>;
}

/** The settings of a checked `node:` block. */
export function nodeSettings(node: InferOutput<typeof nodeSchema> | undefined): NodeSettings {
  const flags = node?.mount?.mount_flags?.split(",") ?? [];
  const checks = Object.entries(node?.mount?.checkFilesystem ?? {});
  const formats = Object.entries(node?.format ?? {});
  return {
    hostFolders: node?.hostpath?.folders,
    hostDatasets: node?.["zfs-local"]?.datasets,
    mountFlags: flags.map(flag => flag.trim()).filter(flag => flag !== ""),
    check: Object.fromEntries(
      checks.map(([type, { enabled, customOptions, customFilesystemOptions }]) => [
        type,
        { enabled, options: [...(customOptions ?? []), ...(customFilesystemOptions ?? [])] },
      ]),
    ),
    format: Object.fromEntries(formats.map(([type, { customOptions }]) => [type, customOptions ?? []])),
  };
}
