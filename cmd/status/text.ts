import type { ConnectionStatus, Status } from "../../lib/observe/status.ts";
import { type Cell, linesOf, table, tableWithin } from "../terminal/table.ts";
import { visible } from "../terminal/terminal.ts";

/** The words for each state of a storage system; undefined for a good one. */
const storageWords: Readonly<Record<NonNullable<ConnectionStatus["storage"]>["state"], string | undefined>> = {
  good: undefined,
  "not-checked": "not checked yet",
  unreachable: "unreachable",
  "login-refused": "login refused",
  unusable: "unusable",
};

/** The state of a connection in words: of its file, and of its storage system unless that is good. */
export function stateText({ state, storage }: ConnectionStatus): string {
  const word = storageWords[storage?.state ?? "good"];
  if (word === undefined) return state;
  return state === "good" ? word : `${state}, ${word}`;
}

/**
 * The last failure of a call caused by the storage system of a connection, unless a later call succeeded. Failures
 * caused by the caller do not count.
 */
export function latestFailure({ lastSuccess, lastStorageFailure: last }: ConnectionStatus): typeof last {
  return last && !(lastSuccess && lastSuccess.at > last.at) ? last : undefined;
}

/** The severity of a connection's problem, from 0 (none) to 5. A node plugin reads no connection files. */
export function severity(each: ConnectionStatus): number {
  if (each.state === "bad" || each.state === "gone") return 5;
  if (each.storage && each.storage.state !== "good") return each.storage.state === "not-checked" ? 2 : 4;
  if (each.state === "degraded") return 3;
  return latestFailure(each) ? 1 : 0;
}

/**
 * Whether all files are valid, all storage systems were checked and can be used, and no call has failed because of one
 * since.
 */
export const isHealthy = ({ connections, health, folderProblem }: Status): boolean =>
  folderProblem === undefined && health.length === 0 && connections.every(each => severity(each) === 0);

/** The line width for people, in characters; only a longer word exceeds it. */
const width = 80;

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] as const;

/** A number of bytes with at most three digits. */
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

/** The time elapsed since `from`, in its largest unit. */
export function age(from: string, now: string): string {
  const seconds = Math.max(0, Math.round((Date.parse(now) - Date.parse(from)) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7_200) return `${Math.floor(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3_600)}h` : `${Math.floor(seconds / 86_400)}d`;
}

/** The time until `time`, which is at most minutes ahead. */
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

/** The complete status for people. */
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

/** The number of connections per state, the most frequent first. */
function summary({ connections: all, modes, folderProblem }: Status): string {
  if (folderProblem !== undefined) return wrapped(`cannot read the connection files: ${visible(folderProblem)}`);
  if (all.length === 0)
    return modes.includes("controller") ? "No connections.\n" : "No calls about a connection yet.\n";
  const counts = new Map<string, number>();
  for (const each of all) counts.set(stateText(each), (counts.get(stateText(each)) ?? 0) + 1);
  const parts = [...counts].sort(([, a], [, b]) => b - a).map(([state, count]) => `${count} ${state}`);
  return wrapped(`${all.length} connection${all.length === 1 ? "" : "s"}: ${parts.join(", ")}`);
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

/** Connections of equal severity stay in order of their names. */
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

/** A member, and why it gets no new volumes at present. */
function memberText(name: string, known: readonly ConnectionStatus[]): string {
  const found = known.find(each => each.name === name);
  if (!found || found.state === "gone") return `${visible(name)} (no file)`;
  if (found.state === "bad") return `${visible(name)} (out of service)`;
  if (found.suspended) return `${visible(name)} (suspended)`;
  const { state } = found.storage ?? { state: "good" };
  return state === "good" || state === "not-checked" ? visible(name) : `${visible(name)} (${stateText(found)})`;
}

/** The number of volumes listed for each condition. */
const mostVolumes = 10;

/** The conditions of storage systems and volumes; conditions of files are listed with the problems. */
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
  return tableWithin(width, [["SUBJECT", "REASON", "SEVERITY", "AGE", "MESSAGE"], ...rows, ...more]);
}

/** The problems of files and storage systems, each cause once, and the last failures without a later success. */
function problems({ connections: all, now }: Status): string {
  const lines = worstFirst(all).flatMap(each => {
    const { name, state, problem } = each;
    const file = problem === undefined ? [] : [`${problem}${consequence[state] ?? ""}`];
    if (state === "gone") file.push("its file was removed; calls for its volumes fail until it is restored");
    const failure = latestFailure(each);
    const call = failure && `${failure.method} ${age(failure.at, now)} ago: ${failure.code}: ${failure.message}`;
    const storage = storageLine(each, now);
    // The storage line already has the reason why calls to an unreachable storage system fail.
    const isSame = storage !== undefined && failure !== undefined && away.has(failure.code);
    return [...file, storage, isSame ? undefined : call].flatMap(line => line ?? []).map(line => `${name}: ${line}`);
  });
  return lines.map(line => wrapped(visible(line))).join("");
}

/** Codes of calls to a storage system that does not answer or refuses the login. */
const away: ReadonlySet<string> = new Set([
  ...["unavailable", "deadline-exceeded", "unauthenticated", "permission-denied"],
]);

/** Why the storage system of a connection cannot be used; undefined if it can. */
function storageLine({ name, storage, outage }: ConnectionStatus, now: string): string | undefined {
  if (storage === undefined || storage.state === "good") return undefined;
  if (storage.state === "not-checked") return "the storage has not been checked yet";
  // Omit what this line already has: drivers name the connection and the operation.
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

/** A text wrapped to the usual width, further lines indented. */
const wrapped = (text: string): string => `${linesOf(text, width - 2).join("\n  ")}\n`;

const consequence: Readonly<Partial<Record<ConnectionStatus["state"], string>>> = {
  degraded: " (still using the last valid file)",
  bad: " (out of service until the file is corrected)",
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
