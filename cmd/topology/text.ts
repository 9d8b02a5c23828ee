import { groupBy } from "../../lib/core/group-by.ts";
import { type Paint, paint } from "../../lib/lint/format/text.ts";
import { topologyText } from "../../lib/topology/accessible-topology.ts";
import { quoted } from "../../lib/topology/labels.ts";
import { type Cell, someOf, table, tableWithin } from "../terminal/table.ts";
import { isOverruled, type NodeAnswer, reasonOf } from "./node-answer.ts";
import {
  type ClassReach,
  type ConnectionTopology,
  type EvaluatedNode,
  reaches,
  registered,
  topologyWords,
} from "./reach.ts";
import type { TopologyView } from "./view.ts";

const width = 80;

/** Everything for people, as it is printed. */
export function viewText(view: TopologyView, colour: boolean): string {
  const tint = paint(colour);
  const { many, details, connections, nodes } = view;
  const parts = [
    many ? registration(view, tint) : nodes.map(({ report }) => nodeText(report, view, tint)).join(""),
    connections && (many || registered(nodes).length > 0) ? connectionsText(connections, view, tint) : "",
    connections && many && view.whole ? unconnected(connections, view, tint) : "",
    view.classes.map(each => classText(each, view, tint)).join(""),
    many && details ? nodesText(view, tint) : "",
    connections && many && details ? mapText(connections, view, tint) : "",
    view.warnings.map(warning => `${tint.warning("warning")}: ${warning}\n`).join(""),
  ];
  return parts.filter(part => part !== "").join("\n");
}

const heads = (texts: readonly string[], tint: Paint): readonly Cell[] =>
  texts.map(text => ({ text, tint: tint.strong }));

const count = (many: number, one: string): string => `${many} ${one}${many === 1 ? "" : "s"}`;

/** Keys without the prefix, which all of them share. */
const short = (key: string, prefix: string): string =>
  key.startsWith(`${prefix}/`) ? key.slice(prefix.length + 1) : key;

function nodeText({ nodeId = "", segments, outcomes, failure }: NodeAnswer, view: TopologyView, tint: Paint): string {
  const rows = outcomes.map(outcome => {
    const { rule, input, value, applied } = outcome;
    const used = value !== undefined && !isOverruled(outcome, outcomes);
    return [
      String(rule.index + 1),
      rule.key,
      "name" in rule.source ? `${rule.source.kind} ${rule.source.name}` : rule.source.kind,
      input === undefined ? "-" : quoted(input),
      used ? { text: value, tint: applied ? tint.strong : tint.warning } : "-",
      { text: reasonOf(outcome, outcomes), tint: applied ? undefined : tint.faint },
    ];
  });
  const rules =
    rows.length === 0 ? "" : table([heads(["rule", "key", "source", "input", "value", "why"], tint), ...rows]);
  if (failure) return rules;
  const pairs = Object.entries(segments).map(([key, value]) => `${key}=${value}`);
  const [first = view.configured ? "" : "none is configured", ...rest] = pairs;
  const lines = [
    `${tint.strong("node id ")}  ${nodeId} ${tint.faint(`(${Buffer.byteLength(nodeId)} bytes)`)}`,
    `${tint.strong("topology")}  ${first}`,
    ...rest.map(pair => `          ${pair}`),
  ];
  return `${lines.join("\n")}\n${rules && `\n${rules}`}`;
}

/** The most groups of nodes with one problem that a summary shows. */
const mostGroups = 5;

function registration({ nodes, prefix }: TopologyView, tint: Paint): string {
  const fine = registered(nodes);
  const keys = new Set(fine.flatMap(({ report }) => Object.keys(report.segments).map(key => short(key, prefix))));
  const { size } = byTopology(fine, prefix);
  const topologies =
    keys.size === 0 ? "" : `, in ${size} ${size === 1 ? "topology" : "topologies"} by ${[...keys].join(", ")}`;
  const head = `${fine.length} of ${count(nodes.length, "node")} can register${topologies}\n`;
  const failed = [
    ...groupBy(
      nodes.filter(({ report }) => report.failure),
      ({ report }) => report.failure?.message ?? "",
    ),
  ];
  const reasons = failed
    .slice(0, mostGroups)
    .map(([why, group]) => `  ${tint.error(someOf(group.map(({ name }) => name)))} cannot: ${why}\n`);
  const more = others(failed.slice(mostGroups));
  return `${head}${reasons.join("")}${more && `  ${more}`}`;
}

const byTopology = (nodes: readonly EvaluatedNode[], prefix: string) =>
  groupBy(nodes, ({ report }) => topologyText(report.segments, prefix));

function connectionsText(all: readonly ConnectionTopology[], view: TopologyView, tint: Paint): string {
  const { many, nodes, prefix } = view;
  const fine = registered(nodes);
  const rows = all.map((connection): readonly Cell[] => {
    const reaching = fine.filter(node => reaches(node, connection)).length;
    const lost = reaching === 0 && fine.length > 0;
    const number = many ? `${reaching}/${fine.length}` : lost ? "no" : "yes";
    const notes = [
      ...(many && lost ? ["no node is there"] : []),
      ...(connection.suspended ? ["suspended: takes no new volumes"] : []),
    ];
    const from = topologyWords(connection, prefix) || "everywhere";
    const note = notes.length > 0 ? ` (${notes.join("; ")})` : "";
    const colour = lost ? tint.error : connection.suspended ? tint.warning : undefined;
    return [{ text: connection.name, tint: colour }, number, from + note];
  });
  const wrong = [...view.broken].map(([name, error]): readonly Cell[] => [
    { text: name, tint: tint.error },
    "?",
    `its file is wrong: ${error.message}`,
  ]);
  const head = heads(["connection", many ? "nodes" : "reached", "reachable from"], tint);
  return tableWithin(width, [head, ...rows, ...wrong]);
}

/** Nodes on which no claim can ever be satisfied. */
function unconnected(all: readonly ConnectionTopology[], { nodes, prefix }: TopologyView, tint: Paint): string {
  if (all.length === 0) return "";
  const alone = registered(nodes).filter(node => !all.some(connection => reaches(node, connection)));
  const groups = [...byTopology(alone, prefix)];
  const lines = groups.slice(0, mostGroups).map(([topology, group]) => {
    const names = someOf(group.map(({ name }) => name));
    return `${tint.warning(names)} (${topology || "no topology"}) ${group.length === 1 ? "reaches" : "reach"} no connection\n`;
  });
  return lines.join("") + others(groups.slice(mostGroups));
}

function others(groups: readonly (readonly [string, readonly EvaluatedNode[]])[]): string {
  const many = groups.reduce((sum, [, group]) => sum + group.length, 0);
  return many > 0 ? `and ${count(many, "more node")}; see --details\n` : "";
}

function classText(each: ClassReach, view: TopologyView, tint: Paint): string {
  const { name, connection, nodes, reasons } = each;
  const head = `class ${name || "without a name"} (connection: ${connection})`;
  const all = registered(view.nodes).length;
  if (nodes.length === 0)
    return `${tint.error(head)} can never be bound${view.many ? "" : " here"}: ${someReasons(reasons)}\n`;
  const where = nodes.length === all ? "every node" : `${nodes.length} of ${count(all, "node")}: ${someOf(nodes, 6)}`;
  return `${head} can be used ${view.many ? `on ${where}` : "here"}\n`;
}

function someReasons(reasons: readonly string[]): string {
  const more = reasons.length - 2;
  return `${reasons.slice(0, 2).join("; or ")}${more > 0 ? `; and ${count(more, "more reason")}` : ""}`;
}

function nodesText({ nodes, prefix }: TopologyView, tint: Paint): string {
  const keys = [...new Set(nodes.flatMap(({ report }) => Object.keys(report.segments)))];
  const rows = nodes.map(({ name, report }): readonly Cell[] => {
    const { failure, nodeId = "-", segments } = report;
    return [name, nodeId, ...keys.map(key => segments[key] ?? "-"), ...(failure ? [failure.message] : [])];
  });
  return tableWithin(width, [heads(["node", "node id", ...keys.map(key => short(key, prefix))], tint), ...rows]);
}

/** Connections down, numbered topologies across, in as many blocks as the width of a terminal needs. */
function mapText(all: readonly ConnectionTopology[], { nodes, broken, prefix }: TopologyView, tint: Paint): string {
  const groups = [...byTopology(registered(nodes), prefix)];
  if (groups.length === 0) return "";
  const numbered = groups.map(([topology, group], index) => ({ number: String(index + 1), topology, group }));
  const legend = numbered.map(({ number, topology, group }) => [
    number,
    topology || "none",
    someOf(group.map(({ name }) => name)),
  ]);
  const mark = (connection: ConnectionTopology, group: readonly EvaluatedNode[]): Cell => {
    const reaching = group.filter(node => reaches(node, connection)).length;
    if (reaching === 0) return { text: "·", tint: tint.faint };
    return { text: reaching === group.length ? "●" : "◐", tint: tint.strong };
  };
  const longest = Math.max(
    ...[...all, ...broken.keys()].map(each => (typeof each === "string" ? each : each.name).length),
  );
  const fitting = Math.max(1, Math.floor((width - longest) / (String(groups.length).length + 2)));
  const blocks: string[] = [];
  for (let from = 0; from < numbered.length; from += fitting) {
    const part = numbered.slice(from, from + fitting);
    const rows = all.map(connection => [connection.name, ...part.map(({ group }) => mark(connection, group))]);
    const unknown = [...broken.keys()].map(name => [name, ...part.map(() => ({ text: "?", tint: tint.error }))]);
    blocks.push(table([heads(["", ...part.map(({ number }) => number)], tint), ...rows, ...unknown]));
  }
  const some = blocks.some(block => block.includes("◐"));
  const meaning = `● reachable  ${some ? "◐ from some of the nodes  " : ""}· not reachable${broken.size > 0 ? "  ? file is wrong" : ""}`;
  const head = heads(["", "topology", "nodes"], tint);
  return `${tableWithin(width, [head, ...legend])}\n${blocks.join("\n")}${tint.faint(meaning)}\n`;
}
