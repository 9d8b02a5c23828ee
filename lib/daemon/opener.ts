import { type ConnectionConfig, type ReadConnection, readConnection } from "../config/connection.ts";
import { accessibleTopologyOf } from "../config/placement.ts";
import type { ProxyConfig } from "../config/proxy.ts";
import type { Segments } from "../core/access.ts";
import type { Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { idBytes, maxHandleBytes } from "../core/handle.ts";
import { isMapping } from "../core/mapping.ts";
import { misspeltParameter } from "../drivers/class-parameters.ts";
import type { Driver } from "../drivers/driver.ts";
import type { DriverFacts } from "../drivers/facts.ts";
import { modules } from "../drivers/index.ts";
import type { DriverPorts } from "../drivers/module.ts";
import { answersTcp } from "../io/dial.ts";
import type { Connection } from "../mux/connection.ts";
import type { Open } from "../mux/connections.ts";
import { brief } from "../schema/finding.ts";
import { defectOf } from "../schema/suppress.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import type { AccessibleTopology } from "../topology/accessible-topology.ts";
import { comparing } from "./named-files.ts";

/** The dependencies of an opener. */
export interface OpenOptions {
  readonly main: () => Pick<ProxyConfig, "defaults" | "single">;
  /** The prefix of topology keys; fixed at the start, like the report of nodes. */
  readonly prefix: string;
  readonly resolver: ValueResolver;
  readonly ports: DriverPorts;
  /** With topology type "node": this node's topology segment, to which volumes on disks of the node are pinned. Throws. */
  readonly ownSegments: (() => Segments) | undefined;
  readonly log: Log;
}

/** Opens connections from the texts of their files; reads only the files of `…File` keys. Throws "failed-precondition". */
export function opener({ main, prefix, resolver, ports, ownSegments, log }: OpenOptions): Open {
  let own: readonly AccessibleTopology[] | undefined;
  const ownTopology = (): readonly AccessibleTopology[] => {
    own ??= ownSegments ? [{ requirements: ownSegments(), extra: {} }] : everywhere;
    return own;
  };
  return (name, text, named): Connection => {
    const { defaults, single } = main();
    const files = comparing(resolver);
    named(files.areEqual);
    const file = name === single ? "the main file" : `${name}.yaml`;
    const read = readConnection(name, file, text, defaults, files.resolver, modules);
    const config = usable(read);
    for (const finding of read.diagnostics) log.warn(brief(finding), { connection: name, rule: finding.rule });
    const driver = openDriver(name, config, name === single, ports);
    const templates = [text, JSON.stringify(defaults.values)];
    return {
      name,
      driverName: config.driver,
      family: config.module.facts.family,
      driver,
      access: config.accessModes ? { ...driver.access, modes: config.accessModes } : driver.access,
      accessibleTopology:
        accessibleTopologyOf(config, prefix) ?? (config.module.facts.local ? ownTopology() : everywhere),
      labels: config.labels,
      copies: config.copies,
      suspended: config.suspended,
      defect: defectOf(text, read.diagnostics),
      retain: config.deleteStrategy === "retain",
      misspelt: (kind, parameters) => misspeltParameter(kind, parameters, templates),
      pool: poolOf(config.module.facts, read.normalized),
      answers: answersOf(read.normalized),
    };
  };
}

/** Connects to sshd, or to the web server, which DSM also has on the ports of the protocol itself. */
function answersOf(file: Readonly<Record<string, unknown>>): Connection["answers"] {
  for (const key of ["sshConnection", "httpConnection"]) {
    const { host, port, protocol } = isMapping(file[key]) ? file[key] : {};
    const usual = key === "sshConnection" ? 22 : protocol === "https" ? 443 : 80;
    if (typeof host === "string")
      return signal => answersTcp(host.replace(/^\[|\]$/g, ""), Number(port ?? usual), signal);
  }
  return undefined;
}

/** The ZFS pool of a connection and its host, by the keys of its file. */
function poolOf({ territory }: DriverFacts, file: unknown): string | undefined {
  if (territory?.system !== "zfs") return undefined;
  const at = (path: readonly string[]): unknown =>
    path.reduce((value: unknown, key) => (isMapping(value) ? value[key] : undefined), file);
  const [host = "this node"] = territory.hosts.map(at).filter(each => typeof each === "string");
  const [dataset] = territory.trees.map(at).filter(each => typeof each === "string");
  return dataset && `${dataset.split("/")[0]} on ${host.toLowerCase()}`;
}

/** Reachable from every node. */
const everywhere: readonly AccessibleTopology[] = [];

function usable({ name, config, diagnostics }: ReadConnection): ConnectionConfig {
  const [first] = diagnostics.filter(each => each.blocks);
  if (config) return config;
  throw new CsiError("failed-precondition", first ? brief(first) : `the file of "${name}" cannot be used`);
}

function openDriver(name: string, config: ConnectionConfig, single: boolean, ports: DriverPorts): Driver {
  const { module, driver, instanceId, mountFlags, copySsh } = config;
  const maxIdBytes = single ? maxHandleBytes : idBytes(name);
  const identity = { connection: name, driver, instanceId, mountFlags, copySsh, maxIdBytes };
  return module.open(identity, config.settings as never, ports);
}
