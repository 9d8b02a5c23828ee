import type { Segments } from "../../lib/core/access.ts";
import { type Paint, paint } from "../../lib/lint/format/text.ts";
import { topologyText } from "../../lib/topology/accessible-topology.ts";
import { quoted } from "../../lib/topology/labels.ts";
import { groupByTopology } from "../../lib/topology/reach.ts";
import { type Cell, someOf, table } from "../terminal/table.ts";
import { modesText } from "./modes.ts";
import { isOverruled, type NodeReport, reasonOf } from "./report.ts";
import { classText, summaryText } from "./summary.ts";
import { reachable, registered, type TopologyView } from "./view.ts";

/** Everything for people, as it is printed. */
export function viewText(view: TopologyView, colour: boolean): string {
  const tint = paint(colour);
  const { many, details, targets } = view;
  const parts = [
    many ? summaryText(view, tint) : nodeText(view, tint),
    many && details ? nodesText(view, tint) : "",
    targets && (details || !many) ? mapText(view, tint) : "",
    targets && many && details ? `${tint.faint(snapshotNote)}\n` : "",
    many ? "" : view.classes.map(each => `${classText(each, view, tint)}\n`).join(""),
    details ? modesText(view, tint) : "",
    view.warnings.map(warning => `${tint.warning("warning")}: ${warning}\n`).join(""),
  ];
  return parts.filter(part => part !== "").join("\n");
}

/** A snapshot has the places of its connection (CSI Snapshot.accessible_topology). */
const snapshotNote =
  "a snapshot is reachable where its connection is: volumes made from it can be used on the same nodes";

function nodeText({ nodes: [node], configured }: TopologyView, tint: Paint): string {
  if (!node) return "";
  const { report } = node;
  const rules = rulesText(report, tint);
  if (report.failure) return rules;
  const id = report.nodeId ?? "";
  const [first = configured ? "" : "none is configured", ...rest] = pairs(report.segments);
  const lines = [
    `${tint.strong("node id ")}  ${id} ${tint.faint(`(${Buffer.byteLength(id)} bytes)`)}`,
    `${tint.strong("topology")}  ${first}`,
    ...rest.map(pair => `          ${pair}`),
  ];
  return `${lines.join("\n")}\n${rules && `\n${rules}`}`;
}

function rulesText({ outcomes }: NodeReport, tint: Paint): string {
  if (outcomes.length === 0) return "";
  const head = ["rule", "key", "source", "input", "value", "why"].map(text => ({ text, tint: tint.strong }));
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
  return table([head, ...rows]);
}

const pairs = (segments: Segments): readonly string[] =>
  Object.entries(segments).map(([key, value]) => `${key}=${value}`);

/** Keys without csimux's own prefix, which all of them have. */
const short = (key: string, prefix: string): string =>
  key.startsWith(`${prefix}/`) ? key.slice(prefix.length + 1) : key;

function nodesText({ nodes, prefix }: TopologyView, tint: Paint): string {
  const keys = [...new Set(nodes.flatMap(({ report }) => Object.keys(report.segments)))];
  const head = ["node", "node id", ...keys.map(key => short(key, prefix))].map(text => ({ text, tint: tint.strong }));
  const rows = nodes.map(({ name, report }): readonly Cell[] => {
    const { failure, nodeId = "-", segments } = report;
    const values = keys.map(key => segments[key] ?? "-");
    const why = failure && { text: failure.message, tint: tint.error };
    return [name, nodeId, ...values, ...(why ? [why] : [])];
  });
  return table([head, ...rows]);
}

/** Places down, connections across. */
function mapText({ nodes, targets = [], broken, prefix, many }: TopologyView, tint: Paint): string {
  const fine = nodes.filter(({ report }) => !report.failure);
  if (fine.length === 0) return "";
  const groups = groupByTopology(fine.map(registered)).map(group =>
    group.flatMap(({ name }) => fine.filter(node => node.name === name)),
  );
  const head = ["", ...targets.map(({ name }) => name), ...broken.keys(), many ? "nodes" : ""];
  const rows = groups.map(group => {
    const [node] = group;
    const place = topologyText(node?.report.segments ?? {}, prefix);
    const marks = targets.map(target => {
      const count = group.filter(each => reachable(target, each, prefix)).length;
      if (count === 0) return { text: "·", tint: tint.faint };
      return { text: count === group.length ? "●" : "◐", tint: tint.strong };
    });
    const unknown = [...broken.keys()].map(() => ({ text: "?", tint: tint.error }));
    return [place || "everywhere", ...marks, ...unknown, many ? someOf(group.map(({ name }) => name)) : ""];
  });
  const some = rows.some(row => row.some(cell => typeof cell !== "string" && cell.text === "◐"));
  const legend = `● reachable  ${some ? "◐ from some of the nodes  " : ""}· not reachable${broken.size > 0 ? "  ? file is wrong" : ""}`;
  return `${table([head.map(text => ({ text, tint: tint.strong })), ...rows])}${tint.faint(legend)}\n`;
}
