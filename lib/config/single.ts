import { isMapping } from "../core/mapping.ts";
import { usualCopies } from "../core/proxy.ts";
import type { DriverModule } from "../drivers/module.ts";
import { apply } from "../schema/apply.ts";
import { failure, problem, type SchemaFinding, shownKey } from "../schema/finding.ts";
import { unknownKeysIn } from "../schema/merge.ts";
import { meant, nearest } from "../schema/nearest.ts";
import { record } from "../schema/parts.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import { withPosition } from "../yaml/parse.ts";
import { commonSchema } from "./common.ts";
import { nodeSchema, nodeSettings } from "./node.ts";
import { inheritedValues, noDefaults, type ProxyConfig, type ReadProxy } from "./proxy.ts";
import { defaultPrefix, nodeIdSettings } from "./topology.ts";

/** The name of the only connection of a main file without `driver: proxy` in messages and logs; no id contains it. */
export const singleName = "main";

/**
 * Reads a main file that configures one driver, as in democratic-csi, as the only connection, with ids without prefix.
 * Its settings are read like a connection file's. Any other file is judged by what its connections inherit.
 */
export function readSingle(read: ReadProxy, modules: readonly DriverModule[], resolver: ValueResolver): ReadProxy {
  const { singleDriver: driver, source } = read;
  if (driver === undefined) return withInherited(read, modules);
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

/** Connections inherit keys outside `proxy:`; a key that no driver has is a mistake. */
function withInherited(read: ReadProxy, modules: readonly DriverModule[]): ReadProxy {
  const schemas = [commonSchema, ...modules.map(({ schema }) => schema)];
  const diagnostics = unknownKeysIn(schemas, inheritedValues(read.source)).map(({ path, known }) => {
    const key = String(path.at(-1));
    const near = nearest(key, known);
    const message = `unknown key "${shownKey(key)}": no driver could inherit it`;
    const found = near ? failure("unknown-key", path, message, meant(near), "key") : undefined;
    return withPosition(read.source, found ?? problem("unknown-key", path, message, "remove it", "key"));
  });
  const config = diagnostics.some(({ blocks }) => blocks) ? undefined : read.config;
  return { ...read, config, diagnostics: [...read.diagnostics, ...diagnostics] };
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
