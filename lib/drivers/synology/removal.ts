import type { Call } from "../../core/call.ts";
import { errors, isAnswer, isNoLun, unless } from "./dsm-error.ts";
import type { Luns, LunsAndTargets, NamedLun } from "./luns.ts";
import type { Lun, SanTarget } from "./san.ts";

/**
 * Removes the LUNs of a volume, whatever their state, and then its targets that lead nowhere, but nothing that another controller makes or
 * finishes after `all` was read. Renames each LUN first, because DSM lists it for a while after its deletion. Throws "aborted" while one still
 * exists, and for one that has been finished.
 */
export async function removeLuns(on: Luns, id: string, all: LunsAndTargets, call: Call): Promise<void> {
  const { san, names } = on;
  const seen = removable(on, id, all);
  for (const named of seen) await remove(on, named, call);
  const withoutSeen = async () => {
    const luns = await san.luns(call.signal);
    return luns.some(({ uuid }) => seen.some(({ lun }) => lun.uuid === uuid)) ? undefined : luns;
  };
  const luns = await on.place.awaited(withoutSeen, "removing", id, call);
  const unit = on.find(id, all);
  // That of a finished volume is withdrawn by now.
  const withdrawn = unit?.finished ? on.targetOf(id, unit.lun.uuid, all.targets) : undefined;
  // The targets were read first, so each of them has a LUN in this listing, unless that is gone.
  const others = luns.map(({ uuid }) => names.taggedIqn(id, uuid).toLowerCase());
  const isLeft = ({ iqn }: SanTarget) => names.isTarget(id, iqn) && !others.includes(iqn.toLowerCase());
  const left = all.targets.filter(each => each !== withdrawn && isLeft(each));
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
  const isFine = (error: unknown) => isAnswer(error, errors.lunExists) || isNoLun(error);
  const name = on.names.removed(lun.name, lun.uuid);
  await on.san.renameLun(lun.uuid, name, call.signal).catch(unless(isFine, undefined));
}

async function remove(on: Luns, named: NamedLun, call: Call): Promise<void> {
  const { lun, state } = named;
  if (state === "being removed" && lun.locked) return;
  if (state === "being made") await refuseFinished(on, lun, call);
  if (state !== "being removed") await markRemoved(on, named, call);
  await on.san.deleteLun(lun.uuid, call.signal);
}

/** The LUNs of a volume that may be removed. Throws "failed-precondition" for a foreign one. */
export const removable = (on: Luns, id: string, { luns, targets }: LunsAndTargets): readonly NamedLun[] =>
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
