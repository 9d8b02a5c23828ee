import * as v from "valibot";
import { connectionNameForm, isConnectionName } from "../core/handle.ts";
import { parseSelector } from "../core/proxy.ts";
import { consistent, filled, list, mapOf, oneOf, optional, record, text } from "../schema/parts.ts";
import { nodeSchema } from "./node.ts";
import { nodeIdSchema, topologySchema } from "./topology.ts";

const connectionName = (description: string) =>
  v.pipe(filled({ description }), v.check(isConnectionName, `must be a connection name: ${connectionNameForm}`));

/** What is wrong with a selector, or undefined. */
function selectorFault(value: string): string | undefined {
  try {
    const empty = parseSelector(value).find(({ values }) => values.includes(""));
    return empty && `has no value for "${empty.key}", and labels are never empty`;
  } catch {
    return "must be conditions such as tier=fast, site in (a, b), !old";
  }
}

/** One entry of `proxy.groups`. */
export const groupSchema = consistent(
  record(
    {
      members: optional(
        list(connectionName("a connection"), { description: "the connections, in order", example: ["nas1", "nas2"] }),
      ),
      selector: optional(
        v.pipe(
          text({ description: "conditions on the labels of connections", example: "tier=fast, site in (a, b)" }),
          v.check(
            value => selectorFault(value) === undefined,
            issue => selectorFault(String(issue.input)) ?? "",
          ),
        ),
      ),
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
    if (value.members && value.selector !== undefined)
      yield [["selector"], '"members" and "selector" are mutually exclusive; remove one of them'];
    if (!value.members && value.selector === undefined) yield [[], 'either "members" or "selector" is needed'];
    if (value.members?.length === 0) yield [["members"], "must name at least one connection"];
    const twice = (value.members ?? []).findIndex((name, index, all) => all.indexOf(name) < index);
    if (twice >= 0) yield [["members", twice], "this connection is already a member"];
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
