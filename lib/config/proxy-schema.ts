import * as v from "valibot";
import { connectionNameForm, isConnectionName } from "../core/handle.ts";
import { consistent, filled, mapOf, oneOf, optional, record } from "../schema/parts.ts";
import { connectionName, connectionSet, oneSet } from "./connection-set.ts";
import { copiesSchema } from "./copies.ts";
import { nodeSchema } from "./node.ts";
import { nodeIdSchema, topologySchema } from "./topology.ts";

/** One entry of `proxy.groups`. */
export const groupSchema = consistent(
  record(
    {
      ...connectionSet,
      policy: optional(
        oneOf(["ordered", "spread", "most-free"], {
          description:
            "which member gets a new volume: the first that fits, an even spread by name, or the one with most free space",
        }),
        "ordered",
      ),
    },
    { description: "several connections that a StorageClass may use under one name" },
  ),
  function* (value) {
    yield* oneSet(value);
    if (value.members?.length === 0) yield [["members"], "must name at least one connection"];
  },
);

const minutes = v.pipe(
  v.number(),
  v.check(
    value => Number.isFinite(value) && (value === -1 || value >= 0),
    "must be 0 (no caching), -1 (forever) or a number above 0",
  ),
  v.metadata({
    description: "how long an unused connection stays open after its last call; 0: closed at once, -1: forever",
    unit: "minutes",
    example: 60,
  }),
);

const choice = <const T extends readonly [string, ...string[]]>(values: T, description: string) =>
  optional(oneOf(values, { description }), values[0]);

/** The `proxy:` block of the main file. */
export const proxySchema = consistent(
  record(
    {
      configFolder: optional(
        filled({ description: "folder of the connection files <name>.yaml", example: "/connections" }),
        "/connections",
      ),
      cacheTimeoutMinutes: optional(minutes, 60),
      nodeTopology: optional(topologySchema),
      nodeId: optional(nodeIdSchema),
      groups: optional(
        mapOf(groupSchema, { description: "name → several connections that a StorageClass may use under that name" }),
      ),
      copies: optional(copiesSchema),
      legacyConnection: optional(connectionName("the connection of volume ids without prefix")),
      listing: choice(
        ["complete", "partial"],
        "what a listing does while a storage system is unreachable: fail, or leave its volumes out",
      ),
      topologyMatch: choice(
        ["lenient", "strict"],
        "whether a requested topology must include every key that a connection requires",
      ),
      reportTopology: choice(
        ["all", "requisite"],
        "which topologies a new volume reports: all of its connection, or those requested",
      ),
      honourPreferred: choice(
        ["off", "first"],
        "first: refuse a volume that is unreachable from the most preferred topology",
      ),
    },
    { description: "settings of csimux itself" },
  ),
  function* (value) {
    for (const name of Object.keys(value.groups ?? {})) {
      if (!isConnectionName(name))
        yield [["groups", name], `a group name must have the form of a connection name: ${connectionNameForm}`];
    }
  },
);

/** The main file; its other keys are defaults for connections. */
export const mainSchema = record(
  { driver: filled({ description: "proxy", example: "proxy" }), proxy: proxySchema, node: optional(nodeSchema) },
  { description: "the main file" },
);
