import type { ConnectionStatus, Status } from "../../lib/observe/status.ts";

/** The words for a storage that cannot be used, or of which nothing is known; undefined for a good one. */
const storageWords: Readonly<Record<NonNullable<ConnectionStatus["storage"]>["state"], string | undefined>> = {
  good: undefined,
  "not-checked": "not checked yet",
  unreachable: "unreachable",
  "login-refused": "login refused",
  unusable: "unusable",
};

/** The state of a connection in words: that of its file, and that of its storage unless it is good. */
export function stateText({ state, storage }: ConnectionStatus): string {
  const word = storageWords[storage?.state ?? "good"];
  if (word === undefined) return state;
  return state === "good" ? word : `${state}, ${word}`;
}

/**
 * The last failure of a call that says something about the storage of a connection, unless a call has succeeded since. What a caller got
 * wrong says nothing about it.
 */
export function latestFailure({ lastSuccess, lastStorageFailure: last }: ConnectionStatus): typeof last {
  return last && !(lastSuccess && lastSuccess.at > last.at) ? last : undefined;
}

/** How severe the problem of a connection is, from 0, no problem, to 5. A node plugin reads no connection files. */
export function severity(each: ConnectionStatus): number {
  if (each.state === "bad" || each.state === "gone") return 5;
  if (each.storage && each.storage.state !== "good") return each.storage.state === "not-checked" ? 2 : 4;
  if (each.state === "degraded") return 3;
  return latestFailure(each) ? 1 : 0;
}

/** Whether all files are good, all storages were checked and can be used, and no call has failed since for a reason of the storage. */
export const isHealthy = ({ connections, health, folderProblem }: Status): boolean =>
  folderProblem === undefined && health.length === 0 && connections.every(each => severity(each) === 0);
