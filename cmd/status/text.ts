import { age, copied, size } from "../../lib/core/amounts.ts";
import type { ConnectionStatus, Status } from "../../lib/observe/status.ts";
import { type Cell, linesOf, table, tableWithin } from "../terminal/table.ts";
import { visible } from "../terminal/terminal.ts";
import { memberText, problemsOf, summary, worstFirst } from "./problems.ts";

/** The line width for people, in characters; only a longer word exceeds it. */
const width = 80;

const tints: Readonly<Record<ConnectionStatus["state"], number>> = {
  ...{ good: 32, degraded: 33, "not-checked": 33, unknown: 2 },
  ...{ bad: 31, gone: 31, unreachable: 31, "login-refused": 31, unusable: 31 },
};

/** The complete status for people. */
export function statusText(status: Status, colour: boolean): string {
  const parts = [
    ...[head(status), wrapped(visible(summary(status))), connections(status, colour), groups(status)],
    ...[health(status), problems(status), copies(status), calls(status)],
  ];
  return parts.filter(part => part !== "").join("\n");
}

function head({ name, version, modes, node, started, now, aliases = [] }: Status): string {
  const on = node === undefined ? "" : ` on ${visible(node)}`;
  const also = aliases
    .map(each => `also ${visible(each.name)}, for the connection ${visible(each.connection)}\n`)
    .join("");
  return `${visible(name)}: csimux ${version}, ${modes.join(" and ")}${on}, up for ${age(started, now)}\n${also}`;
}

/** One line per connection, the worst first. Empty columns are omitted. */
function connections({ connections: all, now }: Status, colour: boolean): string {
  if (all.length === 0) return "";
  const titles = ["CONNECTION", "STATE", "SINCE", "DRIVER", "FREE", "VOLUMES", "CALLS", "LAST OK", "PLACES"];
  const ago = (time: string | undefined) => (time === undefined ? "-" : age(time, now));
  const aged = (text: string, at: string) => `${text} (${age(at, now)} ago)`;
  const rows = worstFirst(all).map((each): readonly Cell[] => [
    visible(each.name),
    stateCell(each, colour),
    ago(each.since),
    visible(each.driver ?? "-"),
    each.freeBytes ? aged(size(each.freeBytes.value), each.freeBytes.at) : "-",
    each.volumes ? aged(String(each.volumes.value), each.volumes.at) : "-",
    String(each.inUse),
    ago(each.lastSuccess?.at),
    each.state === "unknown" || each.driver === undefined
      ? "-"
      : visible(each.accessibleTopology.join(" or ") || "everywhere"),
  ]);
  const used = titles.map((title, column) => title === "CONNECTION" || rows.some(row => row[column] !== "-"));
  return tableWithin(
    width,
    [titles, ...rows].map(row => row.filter((_, column) => used[column])),
  );
}

function stateCell(each: ConnectionStatus, colour: boolean): Cell {
  const text = each.suspended ? `${each.state}, suspended` : each.state;
  return { text, tint: colour ? word => `\x1b[${tints[each.state]}m${word}\x1b[0m` : undefined };
}

function groups({ groups: all, connections: known }: Status): string {
  if (all.length === 0) return "";
  const rows = all.map(({ name, policy, members }) => [
    visible(name),
    policy,
    members.length === 0 ? "none" : visible(members.map(member => memberText(member, known)).join(", ")),
  ]);
  return tableWithin(width, [["GROUP", "POLICY", "MEMBERS"], ...rows]);
}

/** The number of volumes listed for each condition. */
const mostVolumes = 10;

/** The conditions of storage systems and volumes. */
function health({ health: all, now }: Status): string {
  if (all.length === 0) return "";
  const counts = new Map<string, number>();
  const rows = all.flatMap(({ seenBy, connection = "-", volume, storage, reason, severity, message, since }) => {
    const key = JSON.stringify([seenBy, connection, reason]);
    const count = (counts.get(key) ?? 0) + 1;
    counts.set(key, count);
    const subject = visible(volume ?? storage ?? connection);
    return count > mostVolumes ? [] : [[subject, reason, severity, age(since, now), visible(message)]];
  });
  const left = all.length - rows.length;
  const more = left === 0 ? [] : [[`and ${left} more`, "", "", "", ""]];
  return tableWithin(width, [["SUBJECT", "REASON", "SEVERITY", "AGE", "MESSAGE"], ...rows, ...more]);
}

/** The problems of files and storage systems, and the last failures without a later success. */
const problems = ({ connections: all, mainProblem, now }: Status): string =>
  (mainProblem === undefined ? "" : wrapped(visible(mainProblem))) +
  worstFirst(all)
    .flatMap(each => problemsOf(each, now).map(({ text }) => wrapped(visible(`${each.name}: ${text}`))))
    .join("");

/** A text wrapped to the usual width, further lines indented. */
const wrapped = (text: string): string => `${linesOf(text, width - 2).join("\n  ")}\n`;

/** The copies that run or wait in this process, and why their last attempts failed. */
function copies({ copies: all = [] }: Status): string {
  if (all.length === 0) return "";
  const rows = all.map(({ target, from, method, state, done, total, perSecond, stalled, ahead }) => [
    visible(target),
    visible(from),
    method,
    stalled ? `${state}, stalled` : ahead === undefined ? state : `${state} (${ahead} ahead)`,
    done === 0 && total === 0 ? "-" : copied(done, total),
    perSecond > 0 ? `${size(perSecond)}/s` : "-",
  ]);
  const faults = all.flatMap(({ target, fault }) =>
    fault === undefined ? [] : [wrapped(visible(`copy to ${target}: ${fault}`))],
  );
  return tableWithin(width, [["COPY TO", "FROM", "METHOD", "STATE", "COPIED", "RATE"], ...rows]) + faults.join("");
}

function calls({ calls: running, jobs, now }: Status): string {
  const lines = [
    ...running.map(({ method, connection = "-", object = "-", since }) => [
      method,
      visible(connection),
      visible(object),
      age(since, now),
    ]),
    ...jobs.map(({ what, since }) => ["(work)", "", visible(what), age(since, now)]),
  ];
  return lines.length === 0 ? "" : table([["IN PROGRESS", "CONNECTION", "OBJECT", "FOR"], ...lines]);
}
