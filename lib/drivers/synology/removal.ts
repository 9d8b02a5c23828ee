import type { Call } from "../../core/call.ts";
import { errors, isAnswer, isNoLun } from "./dsm-error.ts";
import type { Luns, NamedLun } from "./luns.ts";
import type { Lun, SanTarget } from "./san.ts";

/**
 * Removes LUNs of a volume, whatever their state, and then those of `targets` that are its own and lead nowhere, but nothing that another
 * controller makes or finishes meanwhile: `seen` and `targets` were read before. Renames each LUN first, because DSM lists it for a while after
 * its deletion. Throws "aborted" while one still exists, and for one that has been finished.
 */
export async function removeLuns(
  on: Luns,
  id: string,
  seen: readonly NamedLun[],
  targets: readonly SanTarget[],
  call: Call,
): Promise<void> {
  const { san, names } = on;
  for (const named of seen) await remove(on, named, call);
  const withoutSeen = async () => {
    const luns = await san.luns(call.signal);
    return luns.some(({ uuid }) => seen.some(({ lun }) => lun.uuid === uuid)) ? undefined : luns;
  };
  const luns = await on.place.awaited(withoutSeen, "removing", id, call);
  // The targets were read first, so each of them has a LUN in this listing, unless that is gone.
  const others = luns.map(({ uuid }) => names.taggedIqn(id, uuid).toLowerCase());
  const left = targets.filter(({ iqn }) => names.isTarget(id, iqn) && !others.includes(iqn.toLowerCase()));
  if (left.length === 0) return;
  for (const { id: target, iqn, mapped, sessions } of await san.targets(call.signal))
    if (mapped.length === 0 && sessions.length === 0 && left.some(each => each.id === target && each.iqn === iqn))
      await san.deleteTarget(target, call.signal);
}

/** Throws "aborted" for a LUN that another controller has finished since it was read. */
export async function refuseFinished(on: Luns, { uuid, name }: Lun, call: Call): Promise<void> {
  const now = (await on.san.luns(call.signal)).find(each => each.uuid === uuid);
  if (now && on.names.parse(now.name)?.state === "whole")
    throw on.place.error("aborted", `the LUN "${name}" was finished by another controller meanwhile; it stays`);
}

/**
 * Renames a LUN to mark it as being removed. Another controller may have done so already: the name contains the beginning of
 * the LUN's own UUID, so it cannot belong to another LUN.
 */
export async function markRemoved(on: Luns, { lun }: Pick<NamedLun, "lun">, call: Call): Promise<void> {
  await on.san.renameLun(lun.uuid, on.names.removed(lun.name, lun.uuid), call.signal).catch((error: unknown) => {
    if (!isAnswer(error, errors.lunExists) && !isNoLun(error)) throw error;
  });
}

async function remove(on: Luns, named: NamedLun, call: Call): Promise<void> {
  const { lun, state } = named;
  if (state === "being removed" && lun.locked) return;
  if (state === "being made") await refuseFinished(on, lun, call);
  if (state !== "being removed") await markRemoved(on, named, call);
  await on.san.deleteLun(lun.uuid, call.signal);
}

/** The LUNs of a volume that may be removed. Throws "failed-precondition" for a foreign one. */
export const removable = (
  on: Luns,
  id: string,
  luns: readonly Lun[],
  targets: readonly SanTarget[],
): readonly NamedLun[] =>
  on.named(luns).filter(each => each.id === id.toLowerCase() && mayRemove(on, each, id, targets));

function mayRemove(on: Luns, named: NamedLun, id: string, targets: readonly SanTarget[]): boolean {
  const { lun, state } = named;
  // Only csimux appends the beginning of the UUID to the name.
  if (state === "being removed") return lun.name === on.names.removed(lun.name.replace(/\.[^.]+\.del$/, ""), lun.uuid);
  const maker = on.maker(named, targets);
  if (maker === "democratic-csi") return true;
  if (maker === "this connection") return id === named.id;
  if (state === "being made") return false;
  throw on.place.kept(`the LUN "${lun.name}"`);
}
