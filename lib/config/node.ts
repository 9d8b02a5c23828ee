import type { InferOutput } from "valibot";
import { anything, flag, list, mapOf, optional, record, text } from "./parts.ts";

/** What the `node:` block of the main file adds to every staged volume. */
export interface NodeDefaults {
  /** Appended to the flags of every mount. */
  readonly mountFlags: readonly string[];
  /** By file system: whether it is checked before it is mounted, and how. */
  readonly check: Readonly<
    Record<
      string,
      { readonly enabled: boolean; readonly options: readonly string[]; readonly fileSystemOptions: readonly string[] }
    >
  >;
  /** By file system: more arguments for its mkfs. */
  readonly format: Readonly<Record<string, readonly string[]>>;
}

const words = (description: string) => optional(list(text({ description: "one argument" }), { description }));

const checkFilesystem = record(
  {
    enabled: optional(flag({ description: "check the file system before it is mounted" }), false),
    customOptions: words("arguments of the checking tool"),
    customFilesystemOptions: words('arguments behind "--", for the tool of the file system'),
  },
  { description: "checking one file system" },
);

const mount = record(
  {
    mount_flags: optional(
      text({
        description: "comma-separated flags that are appended to every mount; may hold credentials",
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

/** The `node:` block; read on nodes, from the main file. */
export const nodeSchema = record(
  {
    mount: optional(mount),
    format: optional(mapOf(format, { description: "by file system: how it is made" })),
    csiProxy: optional(anything({ description: "endpoints on Windows; not used" })),
  },
  { description: "what nodes do with every volume; read from the main file" },
);

/** The parsed block in the program's own terms. */
export function nodeDefaults(node: InferOutput<typeof nodeSchema> | undefined): NodeDefaults {
  const flags = (node?.mount?.mount_flags ?? "").split(",").map(each => each.trim());
  const checks = Object.entries(node?.mount?.checkFilesystem ?? {}).map(([name, check]) => [
    name,
    {
      enabled: check.enabled,
      options: check.customOptions ?? [],
      fileSystemOptions: check.customFilesystemOptions ?? [],
    },
  ]);
  const formats = Object.entries(node?.format ?? {}).map(([name, each]) => [name, each.customOptions ?? []]);
  return {
    mountFlags: flags.filter(each => each !== ""),
    check: Object.fromEntries(checks),
    format: Object.fromEntries(formats),
  };
}
