import type { ListedNode } from "../../lib/config/cluster.ts";
import { groupBy } from "../../lib/core/group-by.ts";
import type { ConnectionStatus } from "../../lib/observe/status.ts";
import { topologyText } from "../../lib/topology/accessible-topology.ts";
import { severity } from "../status/problems.ts";
import type { Reach, ReachMap, Tone } from "./map.ts";

type Labels = Readonly<Record<string, string>>;

/** What a status says about the topology of its connections, and the nodes of the cluster if they are known. */
export interface PlaceFacts {
  readonly connections: readonly ConnectionStatus[];
  /** The prefix of csimux's own topology keys, without the slash. */
  readonly prefix: string;
  readonly nodes: readonly Pick<ListedNode, "name" | "labels">[] | undefined;
}

/** The tone of a connection. */
export function toneOf(each: ConnectionStatus): Tone {
  const degree = severity(each);
  return degree >= 4 ? "bad" : degree > 0 || each.suspended ? "warning" : "good";
}

/** The state of a connection in words, with whether it is suspended. */
export const stateWords = (each: ConnectionStatus): string => each.state + (each.suspended ? ", suspended" : "");

/**
 * Who reaches what, by the labels that kubelet has written on the nodes; without nodes, the topologies that connections
 * name are the places.
 */
export function reachMap({ connections, prefix, nodes }: PlaceFacts): ReachMap {
  const asked = connections.map(each => each.accessibleTopology.map(text => pairs(text, prefix)));
  const own = (labels: Labels = {}): Labels =>
    Object.fromEntries(Object.entries(labels).filter(([key]) => key.startsWith(`${prefix}/`)));
  const places = nodes
    ? [...groupBy(nodes, ({ labels }) => topologyText(own(labels), prefix))].sort(([a], [b]) => byNumber(a, b))
    : [...new Set(connections.flatMap(each => each.accessibleTopology))]
        .sort(byNumber)
        .map(text => [text, undefined] as const);
  const reachOf = (alternatives: readonly Labels[], text: string, group: (typeof places)[number][1]): Reach => {
    if (alternatives.length === 0) return "all";
    const reached = (labels: Labels) =>
      alternatives.some(each => Object.entries(each).every(([key, value]) => labels[key] === value));
    if (!group) return reached(pairs(text, prefix)) ? "all" : "none";
    const count = group.filter(({ labels = {} }) => reached(labels)).length;
    return count === 0 ? "none" : count === group.length ? "all" : "some";
  };
  const shown = places.length > 0 ? places : [["everywhere", undefined] as const];
  return {
    places: shown.map(([text, group]) => ({ text, nodes: group?.map(({ name }) => name) })),
    rows: connections.map((each, index) => ({
      name: each.name,
      tone: toneOf(each),
      note: severity(each) > 0 || each.suspended ? stateWords(each) : "",
      // Without a valid file since the start, its topology is unknown.
      reach: shown.map(([text, group]) =>
        each.driver === undefined ? "unknown" : reachOf(asked[index] ?? [], text, group),
      ),
    })),
  };
}

/** In the order that people expect: zone=2 before zone=10. */
const byNumber = new Intl.Collator("en", { numeric: true }).compare;

/** The labels of a topology as a status shows it: "rack=r1,zone=a", without the prefix. */
const pairs = (text: string, prefix: string): Labels =>
  Object.fromEntries(
    text.split(",").map(pair => {
      const at = pair.indexOf("=");
      const key = pair.slice(0, at);
      return [key.includes("/") ? key : `${prefix}/${key}`, pair.slice(at + 1)];
    }),
  );
