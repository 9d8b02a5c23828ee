import { textAt } from "../../../lib/lint/lint-input.ts";
import type { Moving } from "./cluster-objects.ts";
import { CopyRefusal } from "./controller.ts";
import { targetClass } from "./copy.ts";
import { claimManifest, type LandedVolume, volumeManifest } from "./objects/manifests.ts";
import { claimOfVolume, claimText, noClaim, placeOfObject, textsAt } from "./objects/objects.ts";
import { MoveRefusal } from "./refusal.ts";
import { start, stop } from "./stop.ts";
import { createClaim, deleteClaim, offerVolume, withdrawVolume } from "./swap.ts";
import { groupsOf, usersOf } from "./users.ts";
import {
  again,
  endMove,
  forEachClaim,
  isBeingDeleted,
  type MoveWork,
  noted,
  otherVolume,
  setPolicy,
  stateOf,
  volumeNow,
  wasBound,
  writeNote,
} from "./work.ts";

/** `csimux move undo`: every claim has its old volume again, whatever the move has done so far. No data is deleted. */
export async function undo(work: MoveWork): Promise<number> {
  const { claims, objects, options, kubectl } = work;
  const moved = claims.filter(({ note }) => note !== undefined && note.step !== "undone");
  for (const claim of claims)
    if (!moved.includes(claim))
      kubectl.say(
        `${claimText(claim)}: ${claim.note ? "has its old volume again; csimux move finish ends the move" : "is not being moved"}`,
      );
  for (const claim of moved) {
    if (stateOf(claim) === "other") throw new MoveRefusal(otherVolume(claim));
    if (stateOf(claim) !== "old" && wasBound(claim.fresh) && !options.losesWrites)
      throw new MoveRefusal(
        `what was written to claim ${claimText(claim)} since the switch would be lost; give --lose-writes-since-switch`,
      );
  }
  let code = 0;
  for (const group of groupsOf(moved, each => usersOf(objects, each)))
    code = Math.max(code, await undoGroup(work, group));
  return code;
}

async function undoGroup(work: MoveWork, group: readonly Moving[]): Promise<number> {
  const { kubectl, options } = work;
  const isSwapped = group.some(each => !keepsOld(each));
  let claims = group;
  if (isSwapped) {
    if (!options.isSure)
      await kubectl.confirm(
        `The pods of ${group.map(claimText).join(", ")} will be stopped, and what was written since the switch is lost to them. Continue?`,
      );
    claims = await stop(work, group);
    claims = await forEachClaim(claims, each => (keepsOld(each) ? Promise.resolve(each) : swapBack(work, each)));
  }
  claims = await forEachClaim(claims, each => giveUp(work, each));
  await forEachClaim(claims, each => thaw(work, each));
  const missing = await start(work, claims);
  await forEachClaim(claims, each => endOrKeep(work, each));
  if (missing !== undefined) kubectl.say(missing);
  return missing === undefined ? 0 : 1;
}

/** Whether a claim has its old volume, and keeps it: one that the switch has deleted goes when the last pod that uses it has ended. */
const keepsOld = (moving: Moving): boolean =>
  stateOf(moving) === "old" && (moving.fresh === undefined || !isBeingDeleted(moving));

/** Deletes the claim of the new volume, and makes the one of the old volume. */
async function swapBack(work: MoveWork, moving: Moving): Promise<Moving> {
  const { old, note } = noted(moving);
  if (moving.fresh !== undefined) await setPolicy(work, moving.fresh, "Retain");
  await setPolicy(work, await volumeNow(work, placeOfObject(old).name), "Retain");
  await deleteClaim(work, moving);
  if (moving.fresh !== undefined) await withdrawVolume(work, await volumeNow(work, note.volume));
  await offerVolume(work, await volumeNow(work, placeOfObject(old).name));
  const oldClass = textsAt(note.claim, "spec")["storageClassName"] ?? "";
  await createClaim(work, moving, claimManifest(note.claim, oldClass, placeOfObject(old).name));
  return again(work, moving);
}

/** Removes an unfinished copy. A finished one becomes a volume without a claim, which `finish` deletes. */
async function giveUp(work: MoveWork, moving: Moving): Promise<Moving> {
  const { kubectl } = work;
  const { note, old } = noted(moving);
  if (moving.fresh !== undefined) {
    await withdrawVolume(work, moving.fresh);
    return moving;
  }
  if (note.target === "") return moving;
  if (await cancelled(work, note.target)) return moving;
  const volume = await finished(work, note.target);
  // An earlier undo has cancelled it.
  if (volume === undefined) return moving;
  const manifest = volumeManifest({
    ...note,
    name: note.volume,
    old,
    toClass: targetClass(work, note.toClass),
    volume,
  });
  const spec = { ...textsOf(manifest["spec"]), claimRef: { ...claimOfVolume(manifest), uid: noClaim } };
  await kubectl.change(["create", "-f", "-"], { ...manifest, spec });
  return again(work, moving);
}

/** Cancels a copy; false if it is a volume already, or there is no record of it, as for both a volume and a cancelled copy. */
async function cancelled({ controller }: MoveWork, target: string): Promise<boolean> {
  const known = await controller.find(target);
  if (known === undefined || known.state === "finished") return false;
  await controller.cancel(target);
  return true;
}

/** The volume of a copy that an interrupted switch has completed; undefined if there is none. */
async function finished({ controller }: MoveWork, target: string): Promise<LandedVolume | undefined> {
  try {
    const { volume } = await controller.finish(target);
    if (volume?.handle === target) return volume;
  } catch (error) {
    if (!(error instanceof CopyRefusal) || error.code !== "not-found") throw error;
    return undefined;
  }
  throw new MoveRefusal(`csimux did not describe the volume ${target}`);
}

const textsOf = (value: unknown): object => (typeof value === "object" && value !== null ? value : {});

async function thaw(work: MoveWork, { source }: Moving): Promise<void> {
  try {
    await work.controller.thaw(source);
  } catch (error) {
    // A storage that cannot freeze has nothing to thaw.
    if (!(error instanceof CopyRefusal) || error.code !== "failed-precondition") throw error;
  }
}

/** The move is over, unless there is a new volume to delete. */
async function endOrKeep(work: MoveWork, moving: Moving): Promise<void> {
  const { kubectl } = work;
  if (moving.fresh === undefined) {
    await endMove(work, await volumeNow(work, placeOfObject(moving.old).name));
    kubectl.say(`${claimText(moving)}: has its volume ${placeOfObject(moving.old).name} as before the move`);
    return;
  }
  await writeNote(work, moving, { step: "undone" });
  kubectl.say(
    `${claimText(moving)}: has its old volume ${placeOfObject(moving.old).name}; ${textAt(moving.fresh, "metadata", "name")} stays until csimux move finish deletes it`,
  );
}
