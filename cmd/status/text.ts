import type { ConnectionStatus, Status } from "../../lib/observe/status.ts";
import { type Cell, table } from "../terminal/table.ts";
import { visible } from "../terminal/visible.ts";

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
    ...[head(status), connections(status, colour), groups(status)],
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

function connections({ connections: all, modes, now }: Status, colour: boolean): string {
  if (all.length === 0)
    return modes.includes("controller") ? "No connections.\n" : "No calls about a connection yet.\n";
  const titles = ["CONNECTION", "STATE", "SINCE", "DRIVER", "FREE", "VOLUMES", "CALLS", "LAST OK", "PLACES"];
  const ago = (time: string | undefined) => (time === undefined ? "-" : age(time, now));
  const rows = all.map((each): readonly Cell[] => [
    visible(each.name),
    stateCell(each, colour),
    ago(each.since),
    visible(each.driver ?? "-"),
    each.freeBytes ? size(each.freeBytes.value) : "-",
    each.volumes ? String(each.volumes.value) : "-",
    String(each.inUse),
    ago(each.lastSuccess?.at),
    each.state === "unknown" || each.driver === undefined ? "-" : visible(each.places.join(" or ") || "everywhere"),
  ]);
  return table([titles, ...rows]);
}

function stateCell(each: ConnectionStatus, colour: boolean): Cell {
  const { state, suspended } = each;
  const storage = storageWords[each.storage?.state ?? "good"];
  const standing = state === "good" && storage !== undefined ? [] : [state];
  const text = [...standing, ...(storage === undefined ? [] : [storage]), ...(suspended ? ["suspended"] : [])].join(
    ", ",
  );
  const tint =
    storage === undefined ? tints[state] : each.storage?.state === "not-checked" ? tints.degraded : tints.bad;
  return { text, tint: colour ? word => `\x1b[${tint}m${word}\x1b[0m` : undefined };
}

/** What stands in place of a good state while the storage cannot be used, or nobody knows whether it can. */
const storageWords: Readonly<Record<NonNullable<ConnectionStatus["storage"]>["state"], string | undefined>> = {
  good: undefined,
  "not-checked": "not checked yet",
  unreachable: "unreachable",
  "login-refused": "login refused",
  unusable: "unusable",
};

function groups({ groups: all, connections: known }: Status): string {
  if (all.length === 0) return "";
  const rows = all.map(({ name, policy, members }) => [
    visible(name),
    policy,
    members.length === 0 ? "none" : members.map(member => memberText(member, known)).join(", "),
  ]);
  return table([["GROUP", "POLICY", "MEMBERS"], ...rows]);
}

/** A member, and why it gets no new volume now: the others take what it would have taken. */
function memberText(name: string, known: readonly ConnectionStatus[]): string {
  const found = known.find(each => each.name === name);
  if (!found || found.state === "gone") return `${visible(name)} (no file)`;
  if (found.state === "bad") return `${visible(name)} (out of service)`;
  if (found.suspended) return `${visible(name)} (suspended)`;
  return found.outage ? `${visible(name)} (unavailable)` : visible(name);
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
  return table([["HEALTH OF", "REASON", "HOW BAD", "FOR", "WHAT"], ...rows, ...more]);
}

/** What is wrong with files, and the last failures since which nothing has succeeded. */
function problems({ connections: all, now }: Status): string {
  const lines = all.flatMap(each => {
    const { name, state, problem, outage, lastSuccess, lastFailure } = each;
    const file = problem === undefined ? [] : [`${visible(name)}: ${visible(problem)}${consequence[state] ?? ""}`];
    if (outage)
      file.push(
        `${visible(name)}: unavailable for ${age(outage.since, now)}, asked again ${soon(outage.next, now)}; until then calls are refused: ${visible(outage.reason)}`,
      );
    else if (each.healthProblem !== undefined)
      file.push(`${visible(name)}: cannot use the storage: ${visible(each.healthProblem)}`);
    if (state === "gone") file.push(`${visible(name)}: its file was removed; its volumes wait until it is back`);
    if (!lastFailure || (lastSuccess && lastSuccess.at > lastFailure.at)) return file;
    const { method, code, message, at } = lastFailure;
    return [...file, `${visible(name)}: ${method} ${age(at, now)} ago: ${code}: ${visible(message)}`];
  });
  return lines.map(line => `${line}\n`).join("");
}

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
