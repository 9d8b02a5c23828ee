import type { Call } from "../../core/call.ts";
import type { ConnectionContext } from "./connection-context.ts";
import { markProperties, otherOwner } from "./marks.ts";

/** Whether a copy that is being made, or that one has left, is another connection's that uses the same parent. */
async function isOthers({ zfs, settings }: ConnectionContext, name: string, call: Call): Promise<boolean> {
  const entry = (await zfs.read({ names: [name], properties: markProperties }, call.signal)).get(name);
  return entry !== undefined && otherOwner(entry, settings.marks) !== undefined;
}

/** Throws "aborted" when the place where a copy is made is another connection's now. */
export async function refuseOthers(space: ConnectionContext, name: string, call: Call): Promise<void> {
  if (!(await isOthers(space, name, call))) return;
  throw space.error("aborted", `another connection makes the copy ${name}; give each connection a dataset of its own`);
}

/** Removes what an interrupted copy has left, unless it is another connection's. */
export async function removeStaging(space: ConnectionContext, name: string, call: Call): Promise<void> {
  if (!(await isOthers(space, name, call))) await removeCopy(space, name, call);
}

/** Removes a dataset that csimux copied, with its snapshots. Throws "failed-precondition" for one with others below it. */
export async function removeCopy(space: ConnectionContext, name: string, call: Call): Promise<void> {
  const { zfs, names } = space;
  const all = await zfs.family(name, { names: [names.pool], properties: ["type"] }, call.signal);
  if (!all.has(name)) return;
  const child = [...all.keys()].find(each => each.startsWith(`${name}/`));
  if (child !== undefined)
    throw space.error("failed-precondition", `the dataset ${child}, which csimux did not make, lies below ${name}`);
  const snapshots = [...all.keys()]
    .filter(each => each.startsWith(`${name}@`))
    .map(each => each.slice(name.length + 1));
  await zfs.destroy(name, { snapshots }, call.signal);
}

/** Removes what a creation left that got no further than beside its volume. `sourced`: it was to be made from something else. */
export async function removeLeft(space: ConnectionContext, id: string, sourced: boolean, call: Call): Promise<void> {
  await removeStaging(space, space.names.staging(id), call);
  if (sourced) await dropSources(space, id, call);
}

/**
 * Removes the snapshots that a volume was to be made from, on whatever volumes of this connection they are: its creation broke off
 * before it said what its source is.
 */
export async function dropSources(
  { zfs, names, settings }: ConnectionContext,
  id: string,
  { signal }: Call,
): Promise<void> {
  const own = names.sourceFor("", id).slice(1);
  const wanted = { name: own, parent: names.parent, copies: undefined };
  const { holders } = await zfs.namesakes(wanted, { names: [names.pool], properties: ["type"] }, signal);
  if (holders.length === 0) return;
  const look = { names: holders.map(each => `${each}@${own}`), properties: ["type", ...markProperties] };
  for (const entry of (await zfs.read(look, signal)).values())
    if (otherOwner(entry, settings.marks) === undefined) await zfs.destroy(entry.name, { deferred: true }, signal);
}
