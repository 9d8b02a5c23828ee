import { problem, type SchemaFinding, warning } from "../../schema/finding.ts";
import { meant, nearest } from "../../schema/nearest.ts";
import type { TopologyConfig } from "../../topology/config.ts";
import { isLocal, isMixed } from "../facts.ts";
import { at, type ConnectionFile, type LintInput, listAt, mappingAt } from "../lint-input.ts";
import type { DocumentFinding } from "../source-document.ts";

/** What nodes can report: key without prefix → the possible values, undefined where they cannot be known. */
export type Reports = ReadonlyMap<string, ReadonlySet<string> | undefined>;

/** What the rules of the main file can produce. */
export function reportsOf(topology: TopologyConfig): Reports {
  if (topology.kind !== "rules") {
    return new Map([[topology.kind, topology.kind === "cluster" ? new Set(["local"]) : undefined]]);
  }
  const reports = new Map<string, Set<string> | undefined>();
  for (const { key, template, fallback } of topology.rules) {
    const known = reports.has(key) ? reports.get(key) : new Set<string>();
    if (/\{match:/.test(template)) reports.set(key, undefined);
    else reports.set(key, known?.add(template));
    if (fallback !== undefined) reports.get(key)?.add(fallback);
  }
  return reports;
}

/** Rules about the places of connections and what nodes report. */
export function* topology(world: LintInput): Iterable<DocumentFinding> {
  const { main, connections } = world;
  const config = main?.read.partial;
  // Of a topology that is wrong itself nothing can be said.
  const wrong = at(main?.proxy, "nodeTopology") && !config?.nodeTopology;
  for (const connection of connections) {
    const { leaf } = connection;
    for (const finding of repeated(connection)) yield { leaf, finding };
    if (!config || wrong) continue;
    const reports = config.nodeTopology && reportsOf(config.nodeTopology);
    for (const finding of unreachable(connection, reports)) yield { leaf, finding };
    // Among others the advice is to deploy it apart, which comes first.
    if (isLocal(connection) && config.nodeTopology?.kind !== "node" && !isMixed(connections))
      yield { leaf, finding: needsNode(connection) };
  }
}

const needsNode = ({ driver }: ConnectionFile): SchemaFinding =>
  problem(
    "local-needs-node-topology",
    ["driver"],
    `volumes of ${driver} exist on one node only, but nodes do not report themselves as places`,
    'write "nodeTopology: { type: node }" in the main file, and run a controller on every node',
  );

const where = ["proxy", "perDriver", "topology"] as const;

function* repeated({ read }: ConnectionFile): Iterable<SchemaFinding> {
  const seen = new Map<string, number>();
  for (const [index, place] of listAt(read.tidied, ...where).entries()) {
    const text = JSON.stringify(
      [mappingAt(place, "requirements"), mappingAt(place, "extra")].map(each => Object.entries(each).sort()),
    );
    const before = seen.get(text);
    seen.set(text, before ?? index);
    if (before === undefined) continue;
    yield warning(
      "repeated-place",
      [...where, index],
      `this place is the same as number ${before + 1}`,
      "remove one of the two",
      "key",
    );
  }
}

function* unreachable({ read }: ConnectionFile, reports: Reports | undefined): Iterable<SchemaFinding> {
  const places = listAt(read.tidied, ...where);
  if (places.length > 0 && !reports) {
    yield problem(
      "topology-not-configured",
      [...where],
      "this connection asks for places, but the main file does not say what nodes report",
      'add "nodeTopology" to the main file, or remove this key',
      "key",
    );
    return;
  }
  for (const [index, place] of places.entries()) {
    for (const [key, value] of Object.entries(mappingAt(place, "requirements"))) {
      const path = [...where, index, "requirements", key];
      if (!reports?.has(key)) {
        const known = [...(reports?.keys() ?? [])];
        const near = nearest(key, known);
        const fix = near ? meant(near) : `nodes report: ${known.join(", ")}`;
        yield problem("topology-key-unknown", path, `no rule of the main file produces the key "${key}"`, fix, "key");
        continue;
      }
      const values = reports.get(key);
      if (!values || values.has(String(value))) continue;
      const near = nearest(String(value), values);
      const fix = near ? meant(near) : `possible: ${[...values].join(", ")}`;
      yield problem("topology-value-unknown", path, `no node reports "${String(value)}" for the key "${key}"`, fix);
    }
  }
}
