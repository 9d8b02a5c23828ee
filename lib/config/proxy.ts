import * as v from "valibot";
import type { CacheTimeout } from "../core/cache-timeout.ts";
import type { Group } from "../core/group.ts";
import { isConnectionName } from "../core/handle.ts";
import { parseSelector } from "../core/selector.ts";
import type { NodeIdConfig, TopologyConfig } from "../topology/config.ts";
import { apply } from "./apply.ts";
import { type Diagnostic, type Finding, failure } from "./finding.ts";
import { isMapping, type Mapping } from "./mapping.ts";
import { type NodeDefaults, nodeDefaults, nodeSchema } from "./node.ts";
import type { Outside } from "./outside.ts";
import { consistent, filled, list, mapOf, oneOf, optional, record, text } from "./parts.ts";
import { defaultPrefix, nodeIdSchema, nodeIdSettings, nodeTopology, topologySchema } from "./topology.ts";
import { parseYaml, placed, type Source } from "./yaml.ts";

/** What the main file gives to every connection. */
export interface Defaults {
  /** Everything outside `proxy:` that connections may inherit, as written. */
  readonly values: Mapping;
  /** Prefix of topology keys. */
  readonly prefix: string;
}

/** A main file that gives nothing. */
export const noDefaults: Defaults = { values: {}, prefix: defaultPrefix };

/** The main file. */
export interface ProxyConfig {
  readonly configFolder: string;
  readonly cacheTimeout: CacheTimeout;
  /** Undefined when the file does not speak of topology; csimux then announces none. */
  readonly nodeTopology: TopologyConfig | undefined;
  readonly nodeId: NodeIdConfig;
  readonly groups: ReadonlyMap<string, Group>;
  /** Handles without prefix belong to this connection. */
  readonly legacyConnection: string | undefined;
  /** What an unfiltered listing does while a connection cannot be reached: fail, or leave it out. */
  readonly listing: "complete" | "partial";
  /** strict: a requested place must name every key that the connection requires. */
  readonly topologyMatch: "lenient" | "strict";
  /** Which of its places a new volume reports: all, or those that fit a requested one. */
  readonly reportTopology: "all" | "requisite";
  /** first: a volume that the most preferred place cannot reach is refused, so that the scheduler looks elsewhere. */
  readonly honourPreferred: "off" | "first";
  readonly node: NodeDefaults;
  readonly defaults: Defaults;
}

const connectionName = (description: string) =>
  v.pipe(filled({ description }), v.check(isConnectionName, "is no name of a connection"));

const isSelector = (value: string): boolean => {
  try {
    return parseSelector(value).length > 0;
  } catch {
    return false;
  }
};

const selectorHelp = "must be conditions such as tier=fast, site in (a, b), !old";

const group = consistent(
  record(
    {
      members: optional(
        list(connectionName("a connection"), { description: "the connections, in order", example: ["nas1", "nas2"] }),
      ),
      selector: optional(
        v.pipe(
          text({ description: "conditions on the labels of connections", example: "tier=fast, site in (a, b)" }),
          v.check(isSelector, selectorHelp),
        ),
      ),
      policy: optional(
        oneOf(["ordered", "spread", "most-free"], {
          description: "which member takes a new volume: the first that fits, an even spread by name, or the emptiest",
        }),
        "ordered",
      ),
    },
    { description: "several connections that a StorageClass may name as one" },
  ),
  function* (value) {
    if (value.members && value.selector !== undefined)
      yield [["selector"], '"members" and "selector" exclude each other'];
    if (!value.members && value.selector === undefined) yield [[], 'either "members" or "selector" is needed'];
    if (value.members?.length === 0) yield [["members"], "must name at least one connection"];
    const twice = (value.members ?? []).findIndex((name, index, all) => all.indexOf(name) < index);
    if (twice >= 0) yield [["members", twice], "this connection is a member already"];
  },
);

const minutes = v.pipe(
  v.number(),
  v.check(
    value => Number.isFinite(value) && (value === -1 || value >= 0),
    "must be 0 (no caching), -1 (for ever) or a number above 0",
  ),
  v.metadata({
    description: "how long an unused connection stays open after its last call; 0: not at all, -1: for ever",
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
      configFolder: filled({ description: "folder of the connection files <name>.yaml", example: "/connections" }),
      cacheTimeoutMinutes: optional(minutes, 60),
      nodeTopology: optional(topologySchema),
      nodeId: optional(nodeIdSchema),
      groups: optional(mapOf(group, { description: "name → several connections that a StorageClass may name as one" })),
      legacyConnection: optional(connectionName("the connection that volume ids without prefix belong to")),
      listing: choice(
        ["complete", "partial"],
        "what a listing does while a connection cannot be reached: fail, or leave it out",
      ),
      topologyMatch: choice(
        ["lenient", "strict"],
        "whether a requested place must name every key that a connection requires",
      ),
      reportTopology: choice(
        ["all", "requisite"],
        "which places a new volume reports: all of its connection, or those requested",
      ),
      honourPreferred: choice(["off", "first"], "first: refuse a volume that the most preferred place cannot reach"),
    },
    { description: "csimux itself" },
  ),
  function* (value) {
    for (const name of Object.keys(value.groups ?? {})) {
      if (!isConnectionName(name))
        yield [["groups", name], 'a group is named like a connection: letters, digits, ".", "_", "-"'];
    }
  },
);

const mainSchema = record(
  {
    driver: filled({ description: "proxy", example: "proxy" }),
    proxy: proxySchema,
    node: optional(nodeSchema),
  },
  { description: "the main file" },
);

/** Top-level keys of the main file that connections do not inherit. */
export const ownKeys: ReadonlySet<string> = new Set(["driver", "proxy", "service", "instance_id"]);

/** What reading the main file gave. */
export interface ReadProxy {
  readonly source: Source;
  /** Undefined when a diagnostic blocks. */
  readonly config: ProxyConfig | undefined;
  /** The same without the parts that are wrong, for rules that look further; undefined when nothing is left. */
  readonly partial: ProxyConfig | undefined;
  /** The `driver:` of a file that configures a single driver of the original instead of csimux. */
  readonly singleDriver: string | undefined;
  readonly diagnostics: readonly Diagnostic[];
}

/** Reads the main file. Pure; never throws. `file` is only used in messages. */
export const readProxyConfig = (file: string, text: string, outside: Outside): ReadProxy =>
  readProxySource(parseYaml(file, text), outside);

/** As readProxyConfig, for a document that has been parsed already. */
export function readProxySource(source: Source, outside: Outside): ReadProxy {
  const refused = (findings: readonly Finding[], singleDriver?: string): ReadProxy => ({
    source,
    config: undefined,
    partial: undefined,
    singleDriver,
    diagnostics: [...source.diagnostics, ...findings.map(finding => placed(source, finding))],
  });
  if (source.diagnostics.some(each => each.blocks)) return refused([]);
  const raw = source.value;
  if (!isMapping(raw)) return refused([emptyMain]);
  const driver = raw["driver"];
  if (typeof driver === "string" && driver !== "proxy") return refused([notProxy(driver)], driver);
  const { driver: _, proxy, node, ...rest } = raw;
  const parts = { driver, proxy, node };
  const { value, findings } = apply(mainSchema, parts, outside);
  const diagnostics = [...source.diagnostics, ...findings.map(finding => placed(source, finding))];
  const inherited = Object.entries({ ...rest, node }).filter(([key]) => !ownKeys.has(key));
  const config = value && settled(value, Object.fromEntries(inherited));
  const right = config ? undefined : apply(mainSchema, withoutFaults(parts, findings), outside).value;
  const partial = config ?? (right && settled(right, Object.fromEntries(inherited)));
  return { source, config, partial, singleDriver: undefined, diagnostics };
}

/** The folder of a partial configuration whose own is wrong. */
export const unknownFolder = "?";

/** The main file without each key of `proxy:` that something is wrong with, and without a wrong `node:`. */
function withoutFaults({ proxy, node }: Mapping, findings: readonly Finding[]): Mapping {
  const faults = findings.filter(({ blocks }) => blocks).map(({ path }) => path);
  const wrong = new Set(faults.filter(([first]) => first === "proxy").map(([, second]) => second));
  const kept = Object.entries(isMapping(proxy) ? proxy : {}).filter(([key]) => !wrong.has(key));
  return {
    driver: "proxy",
    proxy: { configFolder: unknownFolder, ...Object.fromEntries(kept) },
    node: faults.some(([first]) => first === "node") ? undefined : node,
  };
}

const emptyMain = failure(
  "missing-key",
  [],
  "the file holds no settings",
  'begin with "driver: proxy" and a "proxy:" block',
);

const notProxy = (driver: string): Finding =>
  failure(
    "not-proxy",
    ["driver"],
    `the main file must say "driver: proxy", not "${driver}"`,
    `move this file to a folder of connections, say <folder>/main.yaml, and write a main file with "driver: proxy" and "proxy.configFolder: <folder>"; existing volumes stay in service with "proxy.legacyConnection: main"`,
  );

function settled(main: v.InferOutput<typeof mainSchema>, values: Mapping): ProxyConfig {
  const { proxy } = main;
  const topology = proxy.nodeTopology && nodeTopology(proxy.nodeTopology);
  return {
    configFolder: proxy.configFolder.replace(/(.)\/+$/, "$1"),
    cacheTimeout: cacheTimeout(proxy.cacheTimeoutMinutes),
    nodeTopology: topology,
    nodeId: nodeIdSettings(proxy.nodeId),
    groups: new Map(Object.entries(proxy.groups ?? {}).map(([name, each]) => [name, groupConfig(each)])),
    legacyConnection: proxy.legacyConnection,
    listing: proxy.listing,
    topologyMatch: proxy.topologyMatch,
    reportTopology: proxy.reportTopology,
    honourPreferred: proxy.honourPreferred,
    node: nodeDefaults(main.node),
    defaults: { values, prefix: topology?.prefix ?? defaultPrefix },
  };
}

/** What `proxy.cacheTimeoutMinutes` says: minutes of idleness, 0 none, -1 for ever. */
function cacheTimeout(value: number): CacheTimeout {
  if (value === 0) return { kind: "none" };
  return value < 0 ? { kind: "forever" } : { kind: "idle", ms: value * 60_000 };
}

const groupConfig = (value: v.InferOutput<typeof group>): Group => ({
  from:
    value.selector === undefined
      ? { kind: "members", members: value.members ?? [] }
      : { kind: "selector", selector: parseSelector(value.selector) },
  policy: value.policy,
});
