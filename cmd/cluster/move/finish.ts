import type { Mapping } from "../../../lib/core/mapping.ts";
import { textAt } from "../../../lib/lint/lint-input.ts";
import { handleOf, type Moving, sharersOf } from "./cluster-objects.ts";
import { CopyRefusal } from "./controller.ts";
import { claimOfVolume, claimText, placeOfObject } from "./objects/objects.ts";
import { MoveRefusal } from "./refusal.ts";
import { endMove, forEachClaim, isBeingDeleted, type MoveWork, noted, setPolicy, stateOf, volumeNow } from "./work.ts";

/** How long a deletion may take before a message says that it continues, in milliseconds. */
const deletionMs = 60_000;

/** What storage alone knows: a PersistentVolume disappears in either case. */
const kept = "deleteStrategy: retain keeps it";

/** `csimux move finish`: gives the unused volume its old policy, or deletes it after an undo, and ends the move. */
export async function finish(work: MoveWork): Promise<number> {
  const { claims, kubectl, options } = work;
  const moved = claims.filter(each => each.note !== undefined);
  for (const claim of claims) if (claim.note === undefined) kubectl.say(`${claimText(claim)}: is not being moved`);
  for (const claim of moved) checkFinished(claim);
  for (const volume of moved.flatMap(loser)) checkUnshared(work, volume);
  const doomed = moved.flatMap(loser).map(each => `${placeOfObject(each).name} (${handleOf(each)})`);
  if (doomed.length > 0 && !options.isSure)
    await kubectl.confirm(
      `These volumes will be deleted, with their data unless ${kept}: ${doomed.join(", ")}. Continue?`,
    );
  await forEachClaim(moved, each => (noted(each).note.step === "switched" ? keepNew(work, each) : keepOld(work, each)));
  return 0;
}

/** The volume that `finish` deletes with its data. */
function loser(moving: Moving) {
  const { note, old } = noted(moving);
  if (note.step === "undone") return moving.fresh ? [moving.fresh] : [];
  return note.policy === "Delete" ? [old] : [];
}

/** Throws MoveRefusal unless the claim is bound to the volume that stays, and not to the other one. */
function checkFinished(moving: Moving): void {
  const { note, old } = noted(moving);
  const name = `claim ${claimText(moving)}`;
  if (note.step !== "switched" && note.step !== "undone")
    throw new MoveRefusal(`${name} has not been switched; run csimux move switch or undo first`);
  const [stays, goes] = note.step === "switched" ? [moving.fresh, old] : [old, moving.fresh];
  const uid = textAt(moving.claim, "metadata", "uid");
  const isBound =
    textAt(moving.claim, "status", "phase") === "Bound" && uid !== undefined && claimOfVolume(stays)?.uid === uid;
  const isRight = stateOf(moving) === (note.step === "switched" ? "new" : "old");
  // A pod still uses it. The volume that it then leaves may be deleted, too.
  if (isBeingDeleted(moving)) throw new MoveRefusal(`${name} is being deleted; nothing is deleted`);
  if (!isBound || !isRight)
    throw new MoveRefusal(`${name} is not bound to ${placeOfObject(stays).name || note.volume}; nothing is deleted`);
  if (goes !== undefined && claimOfVolume(goes)?.uid === uid)
    throw new MoveRefusal(`${name} is bound to ${placeOfObject(goes).name}, too; nothing is deleted`);
}

/** Throws MoveRefusal if another PersistentVolume has the storage that is to be deleted. */
function checkUnshared({ objects }: MoveWork, volume: Mapping): void {
  const { name } = placeOfObject(volume);
  const [other] = sharersOf(objects, volume);
  if (other !== undefined)
    throw new MoveRefusal(
      `the PersistentVolume ${other} has the same storage as ${name}; nothing is deleted. If that storage is not needed any more, set ${other} to the policy Retain, delete it, and repeat the command`,
    );
}

async function keepNew(work: MoveWork, moving: Moving): Promise<void> {
  const { note, old } = noted(moving);
  const { kubectl, objects } = work;
  const target = objects.classes.find(each => placeOfObject(each).name === note.toClass);
  // The class's policy; without one it is Delete (Kubernetes API reference, StorageClass).
  const policy = textAt(target, "reclaimPolicy") ?? "Delete";
  await thawUnlessGone(work, moving.source);
  if (moving.fresh !== undefined && target !== undefined) await setPolicy(work, moving.fresh, policy);
  await endMove(work, old);
  if (note.policy === "Delete") await gone(work, moving, placeOfObject(old).name);
  else
    kubectl.say(
      `${claimText(moving)}: ${placeOfObject(old).name} had the policy ${note.policy} before the move, and stays`,
    );
}

async function keepOld(work: MoveWork, moving: Moving): Promise<void> {
  const { note, old } = noted(moving);
  if (moving.fresh !== undefined) {
    await setPolicy(work, moving.fresh, "Delete");
    await gone(work, moving, note.volume);
  }
  await endMove(work, await volumeNow(work, placeOfObject(old).name));
}

/** Sets a volume back to writable: storage may refuse to delete a read-only one, and one that stays must be writable. */
async function thawUnlessGone({ controller }: MoveWork, handle: string): Promise<void> {
  try {
    await controller.thaw(handle);
  } catch (error) {
    if (!(error instanceof CopyRefusal) || !["failed-precondition", "not-found"].includes(error.code)) throw error;
  }
}

/** Waits for a deletion, which the provisioner repeats until it succeeds. */
async function gone({ kubectl }: MoveWork, moving: Moving, name: string): Promise<void> {
  try {
    await kubectl.wait(deletionMs, async () =>
      (await kubectl.get("pv", name)) === undefined ? "done" : { missing: "it is still there" },
    );
    kubectl.say(`${claimText(moving)}: ${name} is deleted, with its data unless ${kept}`);
  } catch (error) {
    if (!(error instanceof MoveRefusal)) throw error;
    kubectl.say(
      `${claimText(moving)}: ${name} is being deleted; snapshots of it delay that (kubectl describe pv ${name})`,
    );
  }
}
