import { groupBy } from "../../lib/core/group-by.ts";
import type { Paint } from "../../lib/lint/format/text.ts";
import { topologyText } from "../../lib/topology/accessible-topology.ts";
import { groupByTopology } from "../../lib/topology/reach.ts";
import { type Cell, someOf, table } from "../terminal/table.ts";
import type { ClassView } from "./classes.ts";
import { placesAt, type ReachedConnection } from "./connections.ts";
import { reachable, registered, type TopologyView, type ViewedNode } from "./view.ts";

/** The cluster at a glance: who registers, which storage is reached from where, what reaches nothing, which classes cannot work. */
export function summaryText(view: TopologyView, tint: Paint): string {
  const { nodes, targets } = view;
  const parts = [
    registration(nodes, view, tint),
    targets ? connectionsText(targets, view, tint) : "",
    targets && view.whole ? lonely(targets, view, tint) : "",
    view.classes.map(each => `${classText(each, view, tint)}\n`).join(""),
  ];
  return parts.filter(part => part !== "").join("\n");
}

const count = (many: number, one: string): string => `${many} ${one}${many === 1 ? "" : "s"}`;

const mostReasons = 5;

function registration(nodes: readonly ViewedNode[], { prefix }: TopologyView, tint: Paint): string {
  const fine = nodes.filter(({ report }) => !report.failure);
  const keys = [...new Set(fine.flatMap(({ report }) => Object.keys(report.segments)))].map(key =>
    key.startsWith(`${prefix}/`) ? key.slice(prefix.length + 1) : key,
  );
  const places =
    keys.length > 0 ? `, in ${count(groupByTopology(fine.map(registered)).length, "place")} by ${keys.join(", ")}` : "";
  const head = `${fine.length} of ${count(nodes.length, "node")} can register${places}\n`;
  const failed = nodes.flatMap(({ name, report }) => (report.failure ? [{ name, why: report.failure.message }] : []));
  const groups = [...groupBy(failed, ({ why }) => why)];
  const reasons = groups
    .slice(0, mostReasons)
    .map(([why, group]) => `  ${tint.error(someOf(group.map(({ name }) => name)))} cannot: ${why}\n`);
  const more = groups.slice(mostReasons).reduce((sum, [, group]) => sum + group.length, 0);
  return `${head}${reasons.join("")}${more > 0 ? `  and ${count(more, "more node")}; see --details\n` : ""}`;
}

function connectionsText(targets: readonly ReachedConnection[], view: TopologyView, tint: Paint): string {
  const head = ["connection", "nodes", "reached from"].map(text => ({ text, tint: tint.strong }));
  const rows = targets.map(target => connectionRow(target, view, tint));
  const wrong = [...view.broken].map(([name, error]): readonly Cell[] => [
    name,
    "?",
    { text: `its file is wrong: ${error.message}`, tint: tint.error },
  ]);
  return table([head, ...rows, ...wrong]);
}

function connectionRow(target: ReachedConnection, { nodes, prefix }: TopologyView, tint: Paint): readonly Cell[] {
  const fine = nodes.filter(({ report }) => !report.failure);
  const reaching = fine.filter(node => reachable(target, node, prefix));
  const all = reaching.length === fine.length;
  const note = target.suspended ? " (suspended: takes no new volumes)" : "";
  const from =
    reaching.length === 0 ? noNode(target, prefix) : all ? "every node" : somePlaces(askedBy(target, reaching, prefix));
  const lost = reaching.length === 0 && fine.length > 0;
  return [
    target.name,
    `${reaching.length}/${fine.length}`,
    { text: from + note, tint: lost ? tint.error : note ? tint.warning : undefined },
  ];
}

/** The places that a connection asks for and nodes are in. */
function askedBy(target: ReachedConnection, reaching: readonly ViewedNode[], prefix: string): readonly string[] {
  const labels = reaching.map(({ report }) => ({ labels: report.segments }));
  const places = placesAt(target, labels, prefix).filter(place =>
    reaching.some(node => reachable({ ...target, accessibleTopology: [place] }, node, prefix)),
  );
  return [...new Set(places.map(({ requirements, extra }) => topologyText({ ...requirements, ...extra }, prefix)))];
}

const mostPlaces = 6;

const somePlaces = (places: readonly string[]): string =>
  `${places.slice(0, mostPlaces).join(" | ")}${places.length > mostPlaces ? ` | … (${places.length} in all)` : ""}`;

/** Why nobody reaches it: the places it names. */
function noNode(target: ReachedConnection, prefix: string): string {
  const places = placesAt(target, [], prefix).map(({ requirements }) => topologyText(requirements, prefix));
  return places.length > 0 ? `nowhere: no node is in ${places.join(" or ")}` : "nowhere";
}

/** Nodes on which no claim can ever be satisfied. */
function lonely(targets: readonly ReachedConnection[], { nodes, prefix }: TopologyView, tint: Paint): string {
  if (targets.length === 0) return "";
  const alone = nodes.filter(node => !node.report.failure && !targets.some(target => reachable(target, node, prefix)));
  const byPlace = groupBy(alone, ({ report }) => topologyText(report.segments, prefix));
  return [...byPlace]
    .map(([place, group]) => {
      const names = someOf(group.map(({ name }) => name));
      return `${tint.warning(names)} (${place || "no place"}) ${group.length === 1 ? "reaches" : "reach"} no connection\n`;
    })
    .join("");
}

/** One line for a class: where it can be used; why not, where it is of no use at all. */
export function classText({ name, connection, nodes, reasons }: ClassView, view: TopologyView, tint: Paint): string {
  const head = `class ${name || "without a name"} (connection: ${connection})`;
  const all = view.nodes.filter(({ report }) => !report.failure).length;
  if (nodes.length === 0) return `${tint.error(head)} can never be bound${view.many ? "" : " here"}: ${some(reasons)}`;
  if (!view.many) return `${head} can be used here`;
  if (nodes.length === all) return `${head} can be used on every node`;
  return `${head} can be used on ${nodes.length} of ${count(all, "node")}: ${someOf(nodes, 6)}`;
}

/** The first reasons: in a large cluster each place has its own. */
const some = (reasons: readonly string[]): string => {
  const more = reasons.length - 2;
  return `${reasons.slice(0, 2).join("; or ")}${more > 0 ? `; and ${count(more, "more reason")}` : ""}`;
};
