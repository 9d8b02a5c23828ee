import type { ConnectionStatus, Status } from "../../lib/observe/status.ts";

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
