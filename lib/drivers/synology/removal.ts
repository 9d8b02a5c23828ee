import type { Call } from "../../core/call.ts";
import { errors, isAnswer } from "./dsm-error.ts";
import type { LunContext, NamedLun } from "./lun-context.ts";
import type { SanTarget } from "./san.ts";
import { until } from "./until.ts";

/** How long a call waits for DSM to end what it does, in milliseconds; sidecars wait 15 s, and repeat. */
const goneMs = 5000;

/**
 * Removes every LUN of a volume: the whole one, one that is being made, one whose removal was begun; then targets that lead
 * nowhere. A LUN loses its name first, because DSM shows it for a while after it was told to delete it. Throws
 * "failed-precondition" for a LUN that somebody else made, and "aborted" while one is there still.
 */
export async function removeLuns(space: LunContext, id: string, call: Call): Promise<void> {
  for (const named of (await standing(space, id, call)).luns) await remove(space, named, call);
  const gone = async () => {
    const { luns, targets } = await standing(space, id, call);
    return luns.length === 0 ? targets.filter(({ iqn }) => space.names.isTarget(id, iqn)) : undefined;
  };
  const left = await until(space, gone, goneMs, call);
  if (!left) throw space.error("aborted", `DSM is still removing the LUN of volume "${id}"; repeat the call`);
  for (const { id: target, mapped, sessions } of left)
    if (mapped.length === 0 && sessions.length === 0) await space.san.deleteTarget(target, call.signal);
}

/**
 * Gives a LUN the name of one that is being removed. Another controller may have done so: the name holds the beginning of the LUN's own
 * UUID, so nothing else has it.
 */
export async function setAside(space: LunContext, { lun }: Pick<NamedLun, "lun">, call: Call): Promise<void> {
  await space.san.renameLun(lun.uuid, space.names.removed(lun.name, lun.uuid), call.signal).catch((error: unknown) => {
    if (!isAnswer(error, errors.lunExists) && !isAnswer(error, errors.noLun)) throw error;
  });
}

async function remove(space: LunContext, named: NamedLun, call: Call): Promise<void> {
  const { lun, state } = named;
  if (state === "being removed" && lun.locked) return;
  if (state !== "being removed") await setAside(space, named, call);
  await space.san.deleteLun(lun.uuid, call.signal);
}

/** The LUNs of a volume, which may be removed, and the system's targets. */
async function standing(space: LunContext, id: string, call: Call) {
  const { luns, targets } = await space.look(call);
  const all = space.named(luns).filter(each => each.id === id.toLowerCase());
  return { luns: all.filter(each => mayGo(space, each, id, targets)), targets };
}

function mayGo(space: LunContext, named: NamedLun, id: string, targets: readonly SanTarget[]): boolean {
  const { lun, state } = named;
  // Nothing but a csimux that set it aside has put the beginning of its own UUID behind its name.
  if (state === "being removed")
    return lun.name === space.names.removed(lun.name.replace(/\.[^.]+\.del$/, ""), lun.uuid);
  const maker = space.maker(named, targets);
  if (maker === "democratic-csi") return true;
  if (maker === "this connection") return id === named.id;
  if (state === "being made") return false;
  throw space.error(
    "failed-precondition",
    `the LUN "${lun.name}" bears no mark of this connection, so it stays; delete it in SAN Manager if it is yours`,
  );
}
