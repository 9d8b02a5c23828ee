import { meant, nearest } from "../../schema/nearest.ts";
import type { TopologyConfig } from "../../topology/config.ts";
import type { DocumentDiagnostic, SourceDocument } from "../document.ts";
import { isLocal, isMixed } from "../facts.ts";
import { at, type ConnectionFile, listAt, type MainDocument, mappingAt, textOf } from "../lint-input.ts";
import { error, type Found, report, rulesById, type Theme } from "../rule.ts";

const rule = rulesById({
  // Reported by lib/config.
  "extra-collides": error(
    "Extra labels do not use the prefix of topology keys",
    "A label cannot have two values at once, so no node would match.",
  ),
  "topology-not-configured": error(
    "Topologies of connections need nodes that report them",
    "Without nodeTopology in the main file, nodes report no keys, and volumes of this connection fit no node.",
  ),
  "topology-key-unknown": error(
    "Connections and addresses by topology use keys that nodes report",
    "No node can match.",
  ),
  "topology-value-unknown": error(
    "Connections use values that nodes report",
    "All rules for this key give fixed values, and this is not one of them.",
  ),
  "local-needs-node-topology": error(
    "Local drivers need nodeTopology type node",
    "A volume on a node must be tied to it; otherwise Kubernetes schedules pods where the volume does not exist.",
  ),
});

/** Rules about the topology of connections and the topology that nodes report. */
export const topology: Theme = {
  rules: Object.values(rule),
  *check({ main, connections }) {
    const config = main?.read.partial;
    // A wrong topology has its own finding.
    const wrong = at(main?.proxy, "nodeTopology") && !config?.nodeTopology;
    if (main && config && !wrong) yield* addresses(main, config.nodeTopology && reportsOf(config.nodeTopology));
    for (const connection of connections) {
      if (!config || wrong) continue;
      yield* unreachable(connection, config.nodeTopology && reportsOf(config.nodeTopology));
      // In a mixed deployment, the first advice is to deploy local drivers separately.
      if (isLocal(connection) && config.nodeTopology?.kind !== "node" && !isMixed(connections))
        yield needsNode(connection);
    }
  },
};

/** Keys that nodes can report, without prefix, each with its possible values; undefined: unknown values. */
export type Reports = ReadonlyMap<string, ReadonlySet<string> | undefined>;

/** The keys and values that the rules of the main file can produce. */
export function reportsOf(topology: TopologyConfig): Reports {
  if (topology.kind !== "rules")
    return new Map([[topology.kind, topology.kind === "cluster" ? new Set(["local"]) : undefined]]);
  const reports = new Map<string, Set<string> | undefined>();
  for (const { key, template, fallback } of topology.rules) {
    const known = reports.has(key) ? reports.get(key) : new Set<string>();
    if (/\{match:/.test(template)) reports.set(key, undefined);
    else reports.set(key, known?.add(template));
    if (fallback !== undefined) reports.get(key)?.add(fallback);
  }
  return reports;
}

const needsNode = ({ document, driver }: ConnectionFile): DocumentDiagnostic =>
  report(
    document,
    rule["local-needs-node-topology"],
    ["driver"],
    `volumes of ${driver} exist on one node only, but nodes do not report themselves as topology`,
    'write "nodeTopology: { type: node }" in the main file, and run a controller on every node',
  );

const where = ["proxy", "perDriver", "topology"] as const;

const configure = 'add "nodeTopology" to the main file, or remove this key';

function* unreachable({ document, read }: ConnectionFile, reports: Reports | undefined): Found {
  const all = listAt(read.normalized, ...where);
  if (all.length > 0 && !reports) {
    const message = "this connection requires a topology, but the main file does not configure what nodes report";
    yield report(document, rule["topology-not-configured"], where, message, configure, "key");
    return;
  }
  for (const index of all.keys()) yield* unknown(document, read.normalized, [...where, index, "requirements"], reports);
}

/** Which nodes take which addresses of a storage (`node.addressesByTopology` of the main file). */
function* addresses({ document }: MainDocument, reports: Reports | undefined): Found {
  const { value } = document.source;
  const path = ["node", "addressesByTopology"] as const;
  for (const index of listAt(value, ...path).keys())
    yield* unknown(document, value, [...path, index, "requirements"], reports);
}

/** The requirements at `path` that no node meets. */
function* unknown(
  document: SourceDocument,
  value: unknown,
  path: readonly (string | number)[],
  reports: Reports | undefined,
): Found {
  for (const [key, wanted] of Object.entries(mappingAt(value, ...path))) {
    if (!reports?.has(key)) {
      const known = [...(reports?.keys() ?? [])];
      const near = nearest(key, known);
      const fix = near ? meant(near) : known.length > 0 ? `nodes report: ${known.join(", ")}` : configure;
      const message = `no rule of the main file produces the key "${key}"`;
      yield report(document, rule["topology-key-unknown"], [...path, key], message, fix, "key");
      continue;
    }
    const values = reports.get(key);
    if (!values || values.has(textOf(wanted))) continue;
    const near = nearest(textOf(wanted), values);
    const fix = near ? meant(near) : `possible: ${[...values].join(", ")}`;
    const message = `no node reports "${textOf(wanted)}" for the key "${key}"`;
    yield report(document, rule["topology-value-unknown"], [...path, key], message, fix);
  }
}
