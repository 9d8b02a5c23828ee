import type { ConnectionStatus, Status } from "../../lib/observe/status.ts";
import { type Cell, linesOf, table, tableWithin } from "../terminal/table.ts";
import { visible } from "../terminal/visible.ts";
import { latestFailure, severity, stateText } from "./connection-state.ts";

/** Lines for people are no longer, in characters, unless a single word is. */
const width = 80;

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] as const;

/** Bytes with three digits at most. */
export function size(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : 1;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

/** How long ago a time was, in its largest unit. */
export function age(from: string, now: string): string {
  const seconds = Math.max(0, Math.round((Date.parse(now) - Date.parse(from)) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7_200) return `${Math.floor(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3_600)}h` : `${Math.floor(seconds / 86_400)}d`;
}

/** When a time will be that is less than minutes ahead. */
function soon(time: string, now: string): string {
  const seconds = Math.round((Date.parse(time) - Date.parse(now)) / 1000);
  return seconds > 0 ? `in ${seconds}s` : "now";
}

const tints: Readonly<Record<ConnectionStatus["state"], number>> = {
  good: 32,
  degraded: 33,
  bad: 31,
  gone: 31,
  unknown: 2,
};

/** The whole status for people. */
export function statusText(status: Status, colour: boolean): string {
  const parts = [
    ...[head(status), summary(status), connections(status, colour), groups(status)],
    ...[health(status), problems(status), calls(status)],
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

/** How many connections there are in each state, the most frequent first. */
function summary({ connections: all, modes, folderProblem }: Status): string {
  if (folderProblem !== undefined) return wrapped(`cannot read the connection files: ${visible(folderProblem)}`);
  if (all.length === 0)
    return modes.includes("controller") ? "No connections.\n" : "No calls about a connection yet.\n";
  const counts = new Map<string, number>();
  for (const each of all) counts.set(stateText(each), (counts.get(stateText(each)) ?? 0) + 1);
  const parts = [...counts].sort(([, a], [, b]) => b - a).map(([state, count]) => `${count} ${state}`);
  return wrapped(`${all.length} connection${all.length === 1 ? "" : "s"}: ${parts.join(", ")}`);
}

/** One line for each connection, the worst first. Columns that say nothing about any of them are left out. */
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
    each.state === "unknown" || each.driver === undefined ? "-" : visible(each.places.join(" or ") || "everywhere"),
  ]);
  const said = titles.map((title, column) => title === "CONNECTION" || rows.some(row => row[column] !== "-"));
  return tableWithin(
    width,
    [titles, ...rows].map(row => row.filter((_, column) => said[column])),
  );
}

/** Connections that are equally bad stay in the order of their names. */
const worstFirst = (all: readonly ConnectionStatus[]): readonly ConnectionStatus[] =>
  [...all].sort((a, b) => severity(b) - severity(a));

function stateCell(each: ConnectionStatus, colour: boolean): Cell {
  const text = each.suspended ? `${stateText(each)}, suspended` : stateText(each);
  const { state, storage } = each;
  const isBad = storage !== undefined && storage.state !== "good" && storage.state !== "not-checked";
  const tint = isBad ? tints.bad : storage?.state === "not-checked" ? tints.degraded : tints[state];
  return { text, tint: colour ? word => `\x1b[${tint}m${word}\x1b[0m` : undefined };
}

function groups({ groups: all, connections: known }: Status): string {
  if (all.length === 0) return "";
  const rows = all.map(({ name, policy, members }) => [
    visible(name),
    policy,
    members.length === 0 ? "none" : members.map(member => memberText(member, known)).join(", "),
  ]);
  return tableWithin(width, [["GROUP", "POLICY", "MEMBERS"], ...rows]);
}

/** A member, and why it gets no new volume now: the others take what it would have taken. */
function memberText(name: string, known: readonly ConnectionStatus[]): string {
  const found = known.find(each => each.name === name);
  if (!found || found.state === "gone") return `${visible(name)} (no file)`;
  if (found.state === "bad") return `${visible(name)} (out of service)`;
  if (found.suspended) return `${visible(name)} (suspended)`;
  const { state } = found.storage ?? { state: "good" };
  return state === "good" || state === "not-checked" ? visible(name) : `${visible(name)} (${stateText(found)})`;
}

/** How many volumes with the same trouble are named. */
const mostVolumes = 10;

/** What is known to be wrong with storages and volumes; what is said of files stands among the problems. */
function health({ health: all, now }: Status): string {
  const shown = all.filter(({ of }) => of !== "connection");
  if (shown.length === 0) return "";
  const counts = new Map<string, number>();
  const rows = shown.flatMap(({ seenBy, connection = "-", volume, storage, reason, severity, message, since }) => {
    const key = JSON.stringify([seenBy, connection, reason]);
    const count = (counts.get(key) ?? 0) + 1;
    counts.set(key, count);
    const subject = visible(volume ?? storage ?? connection);
    return count > mostVolumes ? [] : [[subject, reason, severity, age(since, now), visible(message)]];
  });
  const left = shown.length - rows.length;
  const more = left === 0 ? [] : [[`and ${left} more`, "", "", "", ""]];
  return tableWithin(width, [["HEALTH OF", "REASON", "HOW BAD", "FOR", "WHAT"], ...rows, ...more]);
}

/** What is wrong with files and storages, each cause once, and the last failures since which no call has succeeded. */
function problems({ connections: all, now }: Status): string {
  const lines = worstFirst(all).flatMap(each => {
    const { name, state, problem } = each;
    const file = problem === undefined ? [] : [`${problem}${consequence[state] ?? ""}`];
    if (state === "gone") file.push("its file was removed; calls for its volumes fail until it is restored");
    const failure = latestFailure(each);
    const call = failure && `${failure.method} ${age(failure.at, now)} ago: ${failure.code}: ${failure.message}`;
    const storage = storageLine(each, now);
    // A call to a storage that is away failed for the reason that is told already.
    const isSame = storage !== undefined && failure !== undefined && away.has(failure.code);
    return [...file, storage, isSame ? undefined : call].flatMap(line => line ?? []).map(line => `${name}: ${line}`);
  });
  return lines.map(line => wrapped(visible(line))).join("");
}

/** Codes of calls to a storage that does not answer or does not let csimux in. */
const away: ReadonlySet<string> = new Set([
  ...["unavailable", "deadline-exceeded", "unauthenticated", "permission-denied"],
]);

/** Why the storage of a connection cannot be used; undefined where nothing is wrong with it. */
function storageLine({ name, storage, outage }: ConnectionStatus, now: string): string | undefined {
  if (storage === undefined || storage.state === "good") return undefined;
  if (storage.state === "not-checked") return "the storage has not been checked yet";
  // Drivers name the connection and what they were doing, which this line does, too.
  const known = [`connection "${name}": `, "cannot use the storage: "];
  const reason = known.reduce(
    (text, start) => (text.startsWith(start) ? text.slice(start.length) : text),
    storage.reason ?? "",
  );
  const text = `${storageTexts[storage.state]}: ${reason}`;
  if (!outage) return text;
  return `${text} (for ${age(outage.since, now)}; calls are refused, next check ${soon(outage.next, now)})`;
}

const storageTexts = {
  unreachable: "cannot check the storage",
  "login-refused": "the storage refuses the login",
  unusable: "cannot use the storage",
} as const;

/** A text on lines of the usual width, further ones indented. */
const wrapped = (text: string): string => `${linesOf(text, width - 2).join("\n  ")}\n`;

const consequence: Readonly<Partial<Record<ConnectionStatus["state"], string>>> = {
  degraded: " (the last good file goes on being served)",
  bad: " (out of service until it is mended)",
};

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
