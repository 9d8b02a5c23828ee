import type { ConnectionStatus, Status } from "../../lib/observe/status.ts";

/** What stands in place of a good state while the storage cannot be used, or nothing is known of it. */
const storageWords: Readonly<Record<NonNullable<ConnectionStatus["storage"]>["state"], string | undefined>> = {
  good: undefined,
  "not-checked": "not checked yet",
  unreachable: "unreachable",
  "login-refused": "login refused",
  unusable: "unusable",
};

/** How a connection stands, in words: its file, and its storage where that is not good. */
export function standingOf({ state, storage }: ConnectionStatus): string {
  const word = storageWords[storage?.state ?? "good"];
  if (word === undefined) return state;
  return state === "good" ? word : `${state}, ${word}`;
}

/** The last failure of a call about a connection, unless a call has succeeded since. */
export function openFailure({ lastSuccess, lastFailure }: ConnectionStatus): ConnectionStatus["lastFailure"] {
  return lastFailure && !(lastSuccess && lastSuccess.at > lastFailure.at) ? lastFailure : undefined;
}

/** How bad it is about a connection, 0: nothing is wrong. A node knows no states of files. */
export function badness(each: ConnectionStatus): number {
  if (each.state === "bad" || each.state === "gone") return 5;
  if (each.storage && each.storage.state !== "good") return each.storage.state === "not-checked" ? 2 : 4;
  if (each.state === "degraded") return 3;
  return openFailure(each) ? 1 : 0;
}

/** Whether nothing needs to be done: all files are good, all storages were checked and can be used, and no last call has failed. */
export const isWell = ({ connections, health, folderProblem }: Status): boolean =>
  folderProblem === undefined && health.length === 0 && connections.every(each => badness(each) === 0);
