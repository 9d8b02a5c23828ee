import { folder, record } from "../../../lib/schema/parts.ts";

/** The section of toy-local. */
export const toyLocalSchema = record({
  "toy-local": record(
    { folder: folder({ description: "the folder of the volumes", example: "/var/lib/csimux/toy-local" }) },
    { description: "a folder of each node" },
  ),
});
