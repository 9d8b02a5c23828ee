import { age } from "../../lib/core/amounts.ts";
import type { ConnectionStatus, Status } from "../../lib/observe/status.ts";

/**
 * The last failure of a call caused by the storage system of a connection, unless a later call succeeded. Failures
 * caused by the caller do not count.
 */
function latestFailure({ lastSuccess, lastStorageFailure: last }: ConnectionStatus): typeof last {
  return last && !(lastSuccess && lastSuccess.at > last.at) ? last : undefined;
}

/** The severity of a connection's problem, from 0 (none) to 5. A node plugin reads no connection files. */
export const severity = (each: ConnectionStatus): number => severities[each.state] || (latestFailure(each) ? 1 : 0);

const severities: Readonly<Record<ConnectionStatus["state"], number>> = {
  ...{ bad: 5, gone: 5, unreachable: 4, "login-refused": 4, unusable: 4, degraded: 3, "not-checked": 2 },
  ...{ good: 0, unknown: 0 },
};

/**
 * Whether all files are valid, all storage systems were checked and can be used, and no call has failed because of one
 * since.
 */
export const isHealthy = ({ connections, health, folderProblem, mainProblem }: Status): boolean =>
  (folderProblem ?? mainProblem) === undefined &&
  health.length === 0 &&
  connections.every(each => severity(each) === 0);

/** Connections of equal severity stay in order of their names. */
export const worstFirst = (all: readonly ConnectionStatus[]): readonly ConnectionStatus[] =>
  [...all].sort((a, b) => severity(b) - severity(a));

/** The number of connections per state, the most frequent first. */
export function summary({ connections: all, modes, folderProblem }: Status): string {
  if (folderProblem !== undefined) return `cannot read the connection files: ${folderProblem}`;
  if (all.length === 0) return modes.includes("controller") ? "No connections." : "No calls about a connection yet.";
  const counts = new Map<string, number>();
  for (const each of all) counts.set(each.state, (counts.get(each.state) ?? 0) + 1);
  const parts = [...counts].sort(([, a], [, b]) => b - a).map(([state, count]) => `${count} ${state}`);
  return `${all.length} connection${all.length === 1 ? "" : "s"}: ${parts.join(", ")}`;
}

/** A member of a group, and why it gets no new volumes at present. */
export function memberText(name: string, known: readonly ConnectionStatus[]): string {
  const found = known.find(each => each.name === name);
  if (!found || found.state === "gone") return `${name} (no file)`;
  if (found.state === "bad") return `${name} (out of service)`;
  if (found.suspended) return `${name} (suspended)`;
  return severities[found.state] < 4 ? name : `${name} (${found.state})`;
}

/** What is wrong with a connection, and what to do, unless the text says so. */
export interface ConnectionProblem {
  readonly text: string;
  readonly remedy: string | undefined;
}

/** The problems of a connection's file and storage system, each cause once, and its last failure without a later success. */
export function problemsOf(each: ConnectionStatus, now: string): readonly ConnectionProblem[] {
  const { state = each.state } = each.file ?? {};
  const { problem } = each;
  const found: ConnectionProblem[] = [];
  if (problem !== undefined) found.push({ text: `${problem}${consequence[state] ?? ""}`, remedy: "correct the file" });
  if (each.defect !== undefined) found.push({ text: each.defect, remedy: "correct the file" });
  if (state === "gone") {
    const text = "its file was removed; calls for its volumes fail until it is restored";
    found.push({ text, remedy: "restore the file" });
  }
  const storage = storageProblem(each, now);
  if (storage) found.push(storage);
  const failure = latestFailure(each);
  // The problem of the storage system already has the reason why calls fail while it cannot be used.
  if (failure && !(storage && away.has(failure.code))) {
    const text = `${failure.method} ${age(failure.at, now)} ago: ${failure.code}: ${failure.message}`;
    found.push({ text, remedy: undefined });
  }
  return found;
}

/** Codes of calls to a storage system that does not answer or refuses the login. */
const away: ReadonlySet<string> = new Set([
  ...["unavailable", "deadline-exceeded", "unauthenticated", "permission-denied"],
]);

/** Why the storage system of a connection cannot be used; undefined if it can. */
function storageProblem({ name, storage, outage }: ConnectionStatus, now: string): ConnectionProblem | undefined {
  if (storage === undefined || storage.state === "good") return undefined;
  if (storage.state === "not-checked") return { text: "the storage has not been checked yet", remedy: undefined };
  // Omit what this text already has: drivers name the connection and the operation.
  const known = [`connection "${name}": `, "cannot use the storage: "];
  const reason = known.reduce(
    (text, start) => (text.startsWith(start) ? text.slice(start.length) : text),
    storage.reason ?? "",
  );
  const [what, remedy] = storageTexts[storage.state];
  const text = `${what}: ${reason}`;
  if (!outage) return { text, remedy };
  const next = `calls are refused, next check ${soon(outage.next, now)}`;
  return { text: `${text} (for ${age(storage.since ?? outage.since, now)}; ${next})`, remedy };
}

const storageTexts = {
  unreachable: ["cannot check the storage", "check the storage system and the network"],
  "login-refused": ["the storage refuses the login", "correct the credentials in the connection file"],
  unusable: ["cannot use the storage", "correct the connection file, or what it names on the storage system"],
} as const;

const consequence: Readonly<Partial<Record<ConnectionStatus["state"], string>>> = {
  degraded: " (still using the last valid file)",
  bad: " (out of service until the file is corrected)",
};

/** The time until `time`, which is at most minutes ahead. */
function soon(time: string, now: string): string {
  const seconds = Math.round((Date.parse(time) - Date.parse(now)) / 1000);
  return seconds > 0 ? `in ${seconds}s` : "now";
}
