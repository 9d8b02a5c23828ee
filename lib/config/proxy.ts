import type { InferOutput } from "valibot";
import { isMapping, type Mapping } from "../core/mapping.ts";
import { type CacheTimeout, type CopySettings, type Group, usualCopies } from "../core/proxy.ts";
import { apply } from "../schema/apply.ts";
import { type Diagnostic, failure, type SchemaFinding } from "../schema/finding.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import type { NodeIdConfig, TopologyConfig } from "../topology/config.ts";
import { parseYaml, withPosition, type YamlSource } from "../yaml/parse.ts";
import { connectionSetOf } from "./connection-set.ts";
import { copySettings } from "./copies.ts";
import { type NodeSettings, nodeSettings } from "./node.ts";
import { type groupSchema, mainSchema } from "./proxy-schema.ts";
import { defaultPrefix, nodeIdSettings, nodeTopology } from "./topology.ts";

/** Values of the main file that apply to every connection. */
export interface Defaults {
  /** Everything outside `proxy:` that connections may inherit, as written. */
  readonly values: Mapping;
  /** Prefix of topology keys. */
  readonly prefix: string;
}

/** Empty defaults. */
export const noDefaults: Defaults = { values: {}, prefix: defaultPrefix };

/** The main file. */
export interface ProxyConfig {
  /**
   * The name of the only connection, if the main file configures a single driver; classes need not name it, ids have no
   * prefix.
   */
  readonly single: string | undefined;
  /** Empty if the main file configures the only connection. */
  readonly configFolder: string;
  readonly cacheTimeout: CacheTimeout;
  /** Undefined if the file does not configure topology; csimux then advertises none. */
  readonly nodeTopology: TopologyConfig | undefined;
  readonly nodeId: NodeIdConfig;
  readonly groups: ReadonlyMap<string, Group>;
  /** How copies between connections run. */
  readonly copies: CopySettings;
  /** Handles without prefix belong to this connection. */
  readonly legacyConnection: string | undefined;
  /** What an unfiltered listing does while a storage system is unreachable: fail, or leave its volumes out. */
  readonly listing: "complete" | "partial";
  /** strict: a requested topology must include every key that the connection requires. */
  readonly topologyMatch: "lenient" | "strict";
  /** Which topologies a new volume reports: all of its connection, or those that match a requested one. */
  readonly reportTopology: "all" | "requisite";
  /**
   * first: a volume that is unreachable from the most preferred topology is refused, so that the scheduler chooses
   * another node.
   */
  readonly honourPreferred: "off" | "first";
  readonly defaults: Defaults;
  /** Node settings for all volumes. */
  readonly node: NodeSettings;
}

/** Top-level keys of the main file that connections do not inherit. */
const ownKeys: ReadonlySet<string> = new Set(["driver", "proxy", "service", "instance_id"]);

/** The keys of a main file with the schemas of drivers: those outside `proxy:` and `node:` that connections inherit. */
export const inheritedValues = ({ value }: Pick<YamlSource, "value">): Mapping =>
  Object.fromEntries(
    Object.entries(isMapping(value) ? value : {}).filter(([key]) => key !== "node" && !ownKeys.has(key)),
  );

/** The result of reading the main file. */
export interface ReadProxy {
  readonly source: YamlSource;
  /** Undefined if a diagnostic blocks. */
  readonly config: ProxyConfig | undefined;
  /** The configuration without its invalid parts, for further rules; undefined if nothing is left. */
  readonly partial: ProxyConfig | undefined;
  /** The `driver:` of a main file that configures a single driver, as in democratic-csi. */
  readonly singleDriver: string | undefined;
  readonly diagnostics: readonly Diagnostic[];
}

/**
 * Reads the main file of several connections. Pure; never throws. `file` appears only in messages. For the main file of
 * a single driver `config` is undefined: see readSingle.
 */
export const readProxyConfig = (file: string, text: string, resolver: ValueResolver): ReadProxy =>
  readProxySource(parseYaml(file, text), resolver);

/** Like readProxyConfig, for a parsed document. */
export function readProxySource(source: YamlSource, resolver: ValueResolver): ReadProxy {
  const refused = (findings: readonly SchemaFinding[], singleDriver?: string): ReadProxy => ({
    source,
    config: undefined,
    partial: undefined,
    singleDriver,
    diagnostics: [...source.diagnostics, ...findings.map(finding => withPosition(source, finding))],
  });
  if (source.diagnostics.some(each => each.blocks)) return refused([]);
  const raw = source.value;
  if (raw === null || raw === undefined) return refused([emptyMain]);
  if (!isMapping(raw)) return refused([noMapping]);
  const driver = raw["driver"];
  // readSingle, which knows the drivers, decides whether this one can be served alone.
  if (typeof driver === "string" && driver !== "proxy") return refused([notProxy(driver)], driver);
  const { driver: _, proxy, node, ...rest } = raw;
  const parts = { driver, proxy, node };
  const { value, findings } = apply(mainSchema, parts, resolver);
  const diagnostics = [...source.diagnostics, ...findings.map(finding => withPosition(source, finding))];
  const inherited = Object.entries({ ...rest, node }).filter(([key]) => !ownKeys.has(key));
  const config = value && settled(value, Object.fromEntries(inherited));
  const right =
    config || !isMapping(proxy) ? undefined : apply(mainSchema, withoutFaults(parts, findings), resolver).value;
  const partial = config ?? (right && settled(right, Object.fromEntries(inherited)));
  return { source, config, partial, singleDriver: undefined, diagnostics };
}

/** The folder of a partial configuration with an invalid folder. */
export const unknownFolder = "?";

/** The main file without the invalid keys of `proxy:`, and without an invalid `node:`. */
function withoutFaults({ proxy, node }: Mapping, findings: readonly SchemaFinding[]): Mapping {
  const faults = findings.filter(({ blocks }) => blocks).map(({ path }) => path);
  const wrong = new Set(faults.filter(([first]) => first === "proxy").map(([, second]) => second));
  const kept = Object.entries(isMapping(proxy) ? proxy : {}).filter(([key]) => !wrong.has(key));
  return {
    driver: "proxy",
    proxy: { configFolder: unknownFolder, ...Object.fromEntries(kept) },
    node: faults.some(([first]) => first === "node") ? undefined : node,
  };
}

const beginning = 'start with "driver: proxy" and a "proxy:" block';
const emptyMain = failure("empty-file", [], "the main file is empty or contains only comments", beginning);
const noMapping = failure("missing-key", [], "the main file contains no settings", beginning);

const notProxy = (driver: string): SchemaFinding =>
  failure("not-proxy", ["driver"], `the main file has "driver: ${driver}"`, 'write "driver: proxy"');

function settled(main: InferOutput<typeof mainSchema>, values: Mapping): ProxyConfig {
  const { proxy } = main;
  const topology = proxy.nodeTopology && nodeTopology(proxy.nodeTopology);
  return {
    single: undefined,
    configFolder: proxy.configFolder.replace(/(.)\/+$/, "$1"),
    cacheTimeout: cacheTimeout(proxy.cacheTimeoutMinutes),
    nodeTopology: topology,
    nodeId: nodeIdSettings(proxy.nodeId),
    groups: new Map(Object.entries(proxy.groups ?? {}).map(([name, each]) => [name, groupConfig(each)])),
    copies: proxy.copies ? copySettings(proxy.copies) : usualCopies,
    legacyConnection: proxy.legacyConnection,
    listing: proxy.listing,
    topologyMatch: proxy.topologyMatch,
    reportTopology: proxy.reportTopology,
    honourPreferred: proxy.honourPreferred,
    defaults: { values, prefix: topology?.prefix ?? defaultPrefix },
    node: nodeSettings(main.node),
  };
}

/** Converts `proxy.cacheTimeoutMinutes`: idle minutes, 0 none, -1 forever. */
function cacheTimeout(value: number): CacheTimeout {
  if (value === 0) return { kind: "none" };
  return value < 0 ? { kind: "forever" } : { kind: "idle", ms: value * 60_000 };
}

const groupConfig = (value: InferOutput<typeof groupSchema>): Group => ({
  from: connectionSetOf(value),
  policy: value.policy,
});
