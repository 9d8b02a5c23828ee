import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { type Handle, parseHandle } from "../core/handle.ts";
import { mapLimit } from "../core/semaphore.ts";
import type { Connection } from "../mux/connection.ts";
import { connectionsAtOnce } from "../mux/storage-calls.ts";
import type { CopyAnswer, CopyState } from "./protocol.ts";
import type { CopyingParts } from "./running-copies.ts";

/**
 * Lists the copies to all connections, and what copies have left on one connection for as long as that of their other end has no file: the
 * clean-up cannot ask it whether the copy still needs that.
 */
export async function listCopies(
  { calls, connections, copies }: Pick<CopyingParts, "calls" | "connections" | "copies">,
  tell: (answer: CopyAnswer) => void,
  call: Call,
) {
  const names = await connections.names();
  const listed: string[] = [];
  const unlisted = new Set<string>();
  const kept: string[] = [];
  /** Undefined also if the connection does not answer, or its driver has none. */
  const listing = async <T>(name: string, list: (connection: Connection, own: Call) => Promise<T>) => {
    try {
      return await connections.use(name, "retry", each => calls.read("listing", each, call, own => list(each, own)));
    } catch (error) {
      if (!(error instanceof CsiError)) throw error;
      call.log.info("cannot list the copies of a connection", { connection: name, reason: error.message });
      unlisted.add(name);
      return undefined;
    }
  };
  await mapLimit(names, connectionsAtOnce, async name => {
    const stored = await listing(name, async ({ driver }, own) => driver.copyTarget?.copies(own));
    if (stored) listed.push(name);
    for (const state of stored?.map(each => copies.state(name, each)) ?? []) {
      tell(state);
      const gone = state.state === "finished" ? withoutFile(sourceIn(state), names) : undefined;
      if (gone !== undefined)
        kept.push(`${keeps(name, "the record", state.target, gone)}; without it, the record goes with the volume`);
    }
    const snapshots = await listing(name, async ({ driver }, own) => driver.copySource?.protectedSnapshots(own));
    for (const { target } of snapshots ?? []) {
      const gone = withoutFile(parseHandle(target, "volume"), names);
      if (gone !== undefined)
        kept.push(`${keeps(name, "a snapshot", target, gone)}, or remove the snapshot on its storage`);
    }
  });
  return { listed: listed.sort(), unlisted: [...unlisted].sort(), ...(kept.length > 0 && { kept: kept.sort() }) };
}

const sourceIn = ({ source, sourceKind }: CopyState): Handle | undefined => parseHandle(source, sourceKind);

/** The connection of a handle, if there is no such one. */
const withoutFile = (handle: Handle | undefined, names: readonly string[]): string | undefined =>
  handle && !names.includes(handle.connection) ? handle.connection : undefined;

const keeps = (connection: string, what: string, target: string, gone: string): string =>
  `connection "${connection}" keeps ${what} of the copy to volume ${target}, because connection "${gone}" is not configured; restore its file ${gone}.yaml`;
