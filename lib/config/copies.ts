import type { InferOutput } from "valibot";
import type { CopyPolicy, CopySettings } from "../core/proxy.ts";
import { sshConnection } from "../schema/connecting.ts";
import { consistent, flag, list, oneOf, optional, record, whole } from "../schema/parts.ts";
import { connectionSet, connectionSetOf, oneSet } from "./connection-set.ts";

/** The longest time in hours that a forgotten copy may be kept: a year. */
const mostHours = 8_784;

/** `proxy.copies` of the main file. */
export const copiesSchema = record(
  {
    enabled: optional(
      flag({ description: "whether a new volume may get the content of a volume or snapshot on another connection" }),
      true,
    ),
    atOnce: optional(whole({ description: "copies that run at once; the others wait for their turn" }, 1, 64), 2),
    perMachine: optional(
      whole({ description: "of these, copies that read from or write to one storage system" }, 1, 64),
      1,
    ),
    idleMinutes: optional(
      whole(
        {
          description: "a copy that was not asked for in this time pauses; the next request continues it",
          unit: "minutes",
        },
        1,
        1_440,
      ),
      20,
    ),
    keepHours: optional(
      whole(
        { description: "an unfinished copy that was not asked for in this time is removed", unit: "hours" },
        1,
        mostHours,
      ),
      72,
    ),
  },
  { description: "volumes with the content of another connection's volume or snapshot" },
);

const set = (description: string) => consistent(record(connectionSet, { description }), oneSet);

/** `copies` of a connection file. */
export const connectionCopiesSchema = record(
  {
    from: optional(set("the connections whose content new volumes of this one may have; any if absent")),
    to: optional(set("the connections that may get content of this one; any if absent; `members: []`: none")),
    allowPlain: optional(
      flag({ description: "encrypted content of this connection may be stored without encryption elsewhere" }),
      false,
    ),
    drop: optional(
      list(oneOf(["acls"], { description: "NFSv4 ACLs, which rsync cannot copy" }), {
        description: "what copies file by file from this connection may lose; they are refused otherwise",
      }),
      [],
    ),
    sshConnection: optional(sshConnection),
  },
  { description: "copies between this connection and others" },
);

/** Converts `proxy.copies`. */
export const copySettings = (parsed: InferOutput<typeof copiesSchema>): CopySettings => ({
  enabled: parsed.enabled,
  atOnce: parsed.atOnce,
  perMachine: parsed.perMachine,
  idleMs: parsed.idleMinutes * 60_000,
  keepSeconds: parsed.keepHours * 3_600,
});

/** Converts `copies` of a connection file. */
export const copyPolicy = (parsed: InferOutput<typeof connectionCopiesSchema> | undefined): CopyPolicy => ({
  from: parsed?.from && connectionSetOf(parsed.from),
  to: parsed?.to && connectionSetOf(parsed.to),
  allowPlain: parsed?.allowPlain ?? false,
  dropAcls: parsed?.drop.includes("acls") ?? false,
});
