import { anything, flag, list, mapOf, optional, record, text } from "../schema/parts.ts";

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
        description: "comma-separated flags for every mount, not applied by this version; may hold credentials",
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

/** The `node:` block of the main file. It is checked; no protocol that csimux attaches so far makes use of it. */
export const nodeSchema = record(
  {
    mount: optional(mount),
    format: optional(mapOf(format, { description: "by file system: how it is made" })),
    csiProxy: optional(anything({ description: "endpoints on Windows; not used" })),
  },
  { description: "what nodes do with every volume, in the main file; checked, not applied by this version" },
);
