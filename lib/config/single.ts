import { isMapping } from "../core/mapping.ts";
import { usualCopies } from "../core/proxy.ts";
import type { DriverModule } from "../drivers/module.ts";
import { apply } from "../schema/apply.ts";
import { failure, type SchemaFinding } from "../schema/finding.ts";
import { meant, nearest } from "../schema/nearest.ts";
import { record } from "../schema/parts.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import { withPosition } from "../yaml/parse.ts";
import { nodeSchema, nodeSettings } from "./node.ts";
import { noDefaults, type ProxyConfig, type ReadProxy } from "./proxy.ts";
import { defaultPrefix, nodeIdSettings } from "./topology.ts";

/** The name of the only connection of a main file without `driver: proxy` in messages and logs; no id contains it. */
export const singleName = "main";

/**
 * Reads a main file that configures one driver, as in democratic-csi, as the only connection, with ids without prefix.
 * Its settings are read like a connection file's. Returns any other file unchanged.
 */
export function readSingle(read: ReadProxy, modules: readonly DriverModule[], resolver: ValueResolver): ReadProxy {
  const { singleDriver: driver, source } = read;
  if (driver === undefined) return read;
  const refused = (finding: SchemaFinding): ReadProxy => ({
    ...read,
    diagnostics: [...source.diagnostics, withPosition(source, finding)],
  });
  const raw = isMapping(source.value) ? source.value : {};
  if (isMapping(raw["proxy"]) && "configFolder" in raw["proxy"]) return refused(halfProxy(driver));
  const module = modules.find(({ names }) => names.includes(driver));
  if (!module) return refused(unknownDriver(driver, modules));
  const node = apply(record({ node: nodeSchema }), { node: raw["node"] ?? {} }, resolver);
  const diagnostics = [...source.diagnostics, ...node.findings.map(finding => withPosition(source, finding))];
  const config = node.value && single(nodeSettings(node.value.node), module.facts.local);
  return { ...read, config, partial: config, diagnostics };
}

const single = (node: ProxyConfig["node"], local: boolean): ProxyConfig => ({
  single: singleName,
  configFolder: "",
  cacheTimeout: { kind: "forever" },
  // democratic-csi reports topology only for volumes on their node.
  nodeTopology: local ? { kind: "node", prefix: defaultPrefix } : undefined,
  nodeId: { ...nodeIdSettings(undefined), allowHostnameFallback: true },
  groups: new Map(),
  copies: usualCopies,
  legacyConnection: singleName,
  listing: "complete",
  topologyMatch: "lenient",
  reportTopology: "all",
  honourPreferred: "off",
  defaults: noDefaults,
  node,
});

const halfProxy = (driver: string): SchemaFinding =>
  failure(
    "not-proxy",
    ["driver"],
    `a main file with "proxy.configFolder" must have "driver: proxy", not "${driver}"`,
    'write "driver: proxy", and move the driver to a file of that folder; or remove "proxy" to serve only this driver',
  );

function unknownDriver(driver: string, modules: readonly DriverModule[]): SchemaFinding {
  const near = nearest(driver, ["proxy", ...modules.flatMap(({ names }) => names)]);
  const fix = near ? meant(near) : 'write "driver: proxy" for several connections, or the name of one driver';
  return failure("not-proxy", ["driver"], `unknown driver "${driver}" in the main file`, fix);
}
