import { type ConnectionConfig, type ReadConnection, readConnection } from "../lib/config/connection.ts";
import { accessibleTopologyOf } from "../lib/config/placement.ts";
import type { ProxyConfig } from "../lib/config/proxy.ts";
import type { Segments } from "../lib/core/access.ts";
import type { Log } from "../lib/core/call.ts";
import { CsiError } from "../lib/core/errors.ts";
import { idBytes, maxHandleBytes } from "../lib/core/handle.ts";
import type { Driver } from "../lib/drivers/driver.ts";
import { modules } from "../lib/drivers/index.ts";
import type { DriverPorts } from "../lib/drivers/module.ts";
import type { Connection } from "../lib/mux/connection.ts";
import type { ValueResolver } from "../lib/schema/value-resolver.ts";
import type { AccessibleTopology } from "../lib/topology/accessible-topology.ts";

/** What opening a connection needs besides the text of its file. */
export interface OpenOptions {
  readonly main: () => Pick<ProxyConfig, "defaults" | "single">;
  /** Prefix of topology keys; fixed at the start, like what nodes report. */
  readonly prefix: string;
  readonly outside: ValueResolver;
  readonly ports: DriverPorts;
  /** Under topology type "node": this node's place, to which volumes of drivers that live on one node are pinned. Throws. */
  readonly ownPlace: (() => Segments) | undefined;
  readonly log: Log;
}

/** Text of a connection file → open connection, without I/O but for `…File` keys. Throws "failed-precondition". */
export function opener({ main, prefix, outside, ports, ownPlace, log }: OpenOptions) {
  let own: readonly AccessibleTopology[] | undefined;
  const ownPlaces = (): readonly AccessibleTopology[] => {
    own ??= ownPlace ? [{ requirements: ownPlace(), extra: {} }] : everywhere;
    return own;
  };
  return (name: string, text: string): Connection => {
    const { defaults, single } = main();
    const file = name === single ? "the main file" : `${name}.yaml`;
    const read = readConnection(name, file, text, defaults, outside, modules);
    const config = usable(read);
    for (const finding of read.diagnostics) {
      log.warn(`${finding.file}:${finding.line}: ${finding.message}`, { connection: name, rule: finding.rule });
    }
    const driver = openDriver(name, config, name === single, ports);
    return {
      name,
      driverName: config.driver,
      family: config.module.facts.family,
      driver,
      access: config.accessModes ? { ...driver.access, modes: config.accessModes } : driver.access,
      accessibleTopology:
        accessibleTopologyOf(config, prefix) ?? (config.module.facts.local ? ownPlaces() : everywhere),
      labels: config.labels,
      suspended: config.suspended,
      retain: config.deleteStrategy === "retain",
    };
  };
}

/** No place in particular. */
const everywhere: readonly AccessibleTopology[] = [];

function usable({ name, config, diagnostics }: ReadConnection): ConnectionConfig {
  const [first] = diagnostics.filter(each => each.blocks);
  if (config) return config;
  throw new CsiError(
    "failed-precondition",
    first ? `${first.file}:${first.line}:${first.column}: ${first.message}` : `the file of "${name}" cannot be used`,
  );
}

function openDriver(name: string, config: ConnectionConfig, single: boolean, ports: DriverPorts): Driver {
  const { module, driver, instanceId, mountFlags } = config;
  const maxIdBytes = single ? maxHandleBytes : idBytes(name);
  const identity = { connection: name, driver, instanceId, mountFlags, maxIdBytes };
  return module.open(identity, config.settings as never, ports);
}
