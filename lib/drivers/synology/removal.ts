import type { Call } from "../../core/call.ts";
import { type LunContext, type NamedLun, until } from "./contexts.ts";
import { errors, isAnswer, isNoLun } from "./dsm-error.ts";
import type { SanTarget } from "./san.ts";

/** How long a call waits for DSM to remove a LUN, in milliseconds; sidecars wait 15 s and then retry. */
const goneMs = 5000;

/**
 * Removes every LUN of a volume, whatever its state, and then its targets without LUNs. Renames each LUN first, because DSM
 * lists it for a while after its deletion. Throws "failed-precondition" for a foreign LUN, and "aborted" while one still exists.
 */
export async function removeLuns(context: LunContext, id: string, call: Call): Promise<void> {
  for (const named of (await removable(context, id, call)).luns) await remove(context, named, call);
  const gone = async () => {
    const { luns, targets } = await removable(context, id, call);
    return luns.length === 0 ? targets.filter(({ iqn }) => context.names.isTarget(id, iqn)) : undefined;
  };
  const left = await until(context, gone, goneMs, call);
  if (!left) throw context.error("aborted", `DSM is still removing the LUN of volume "${id}"; retrying`);
  for (const { id: target, mapped, sessions } of left)
    if (mapped.length === 0 && sessions.length === 0) await context.san.deleteTarget(target, call.signal);
}

/**
 * Renames a LUN to mark it as being removed. Another controller may have done so already: the name contains the beginning of
 * the LUN's own UUID, so it cannot belong to another LUN.
 */
export async function markRemoved(context: LunContext, { lun }: Pick<NamedLun, "lun">, call: Call): Promise<void> {
  await context.san
    .renameLun(lun.uuid, context.names.removed(lun.name, lun.uuid), call.signal)
    .catch((error: unknown) => {
      if (!isAnswer(error, errors.lunExists) && !isNoLun(error)) throw error;
    });
}

async function remove(context: LunContext, named: NamedLun, call: Call): Promise<void> {
  const { lun, state } = named;
  if (state === "being removed" && lun.locked) return;
  if (state !== "being removed") await markRemoved(context, named, call);
  await context.san.deleteLun(lun.uuid, call.signal);
}

/** The LUNs of a volume that may be removed, and the system's targets. */
async function removable(context: LunContext, id: string, call: Call) {
  const { luns, targets } = await context.look(call);
  const all = context.named(luns).filter(each => each.id === id.toLowerCase());
  return { luns: all.filter(each => mayRemove(context, each, id, targets)), targets };
}

function mayRemove(context: LunContext, named: NamedLun, id: string, targets: readonly SanTarget[]): boolean {
  const { lun, state } = named;
  // Only csimux appends the beginning of the UUID to the name.
  if (state === "being removed")
    return lun.name === context.names.removed(lun.name.replace(/\.[^.]+\.del$/, ""), lun.uuid);
  const maker = context.maker(named, targets);
  if (maker === "democratic-csi") return true;
  if (maker === "this connection") return id === named.id;
  if (state === "being made") return false;
  const text = `the LUN "${lun.name}" does not belong to this connection and is kept; if it is yours, delete it in SAN Manager`;
  throw context.error("failed-precondition", text);
}
