import { textAt } from "../../../lib/lint/lint-input.ts";
import { handleOf, type Moving } from "./cluster-objects.ts";
import { CopyRefusal } from "./controller.ts";
import { mustBeCopied, pass, targetClass } from "./copy.ts";
import { claimManifest, type LandedVolume, volumeManifest } from "./objects/manifests.ts";
import { claimOfVolume, claimText, noClaim } from "./objects/objects.ts";
import { MoveRefusal } from "./refusal.ts";
import { refusalsOf } from "./refusals.ts";
import { holders, podsUsing } from "./staged.ts";
import { noteStopped, start, startedSince, stop } from "./stop.ts";
import { createClaim, deleteClaim, withdrawVolume } from "./swap.ts";
import { setAdvice } from "./templates.ts";
import { groupsOf, usersOf, workloadText } from "./users.ts";
import { again, forEachClaim, type MoveWork, noted, otherVolume, stateOf, volumeNow, writeNote } from "./work.ts";

/** `csimux move switch`: from the stop of the pods to their start on the new volumes. */
export async function switchClaims(work: MoveWork): Promise<number> {
  const { claims, objects, options, kubectl } = work;
  for (const claim of claims) mustBeCopied(claim);
  const pending = claims.filter(claim => noted(claim).note.step !== "switched");
  for (const claim of claims)
    if (!pending.includes(claim)) kubectl.say(`${claimText(claim)}: has its new volume already`);
  // A claim that an interrupted switch has deleted, or given its new volume, was checked before.
  const untouched = pending.filter(claim => stateOf(claim) === "old");
  for (const claim of pending) if (stateOf(claim) === "other") throw new MoveRefusal(otherVolume(claim));
  const refusals = [...new Set(untouched.map(each => noted(each).note.toClass))].flatMap(toClass =>
    refusalsOf(
      objects,
      untouched.filter(each => noted(each).note.toClass === toClass),
      toClass,
      options,
    ),
  );
  if (refusals.length > 0) throw new MoveRefusal(...refusals);
  let code = 0;
  for (const group of groupsOf(pending, each => usersOf(objects, each)))
    code = Math.max(code, await switchGroup(work, group));
  return code;
}

/** Claims that are stopped together. */
async function switchGroup(work: MoveWork, group: readonly Moving[]): Promise<number> {
  const { kubectl, options, objects } = work;
  const workloads = new Set(
    group.flatMap(each => usersOf(objects, each).workloads.map(each => `${each.namespace}/${workloadText(each)}`)),
  );
  const isSwapped = group.every(each => stateOf(each) === "new" && textAt(each.claim, "status", "phase") === "Bound");
  let claims = group;
  const times = new Stopwatch();
  if (!isSwapped) {
    if (!options.isSure)
      await kubectl.confirm(
        `${workloads.size === 0 ? "Nothing" : [...workloads].join(", ")} will be stopped for the switch of ${group.map(claimText).join(", ")}. Continue?`,
      );
    await forEachClaim(
      group.filter(each => stateOf(each) === "old"),
      each => prepare(work, each),
    );
    times.begin();
    claims = await stop(work, group);
    times.lap("the pods' end");
    claims = await forEachClaim(claims, each =>
      stateOf(each) === "old" ? noteStopped(work, each) : Promise.resolve(each),
    );
    claims = await forEachClaim(claims, each => land(work, each));
    times.lap("the last pass");
    claims = await forEachClaim(claims, each => swap(work, each));
    times.lap("the swap");
  }
  const missing = await start(work, claims);
  times.lap("the pods' start");
  await forEachClaim(claims, async each => void (await writeNote(work, each, { step: "switched" })));
  kubectl.say(`${group.map(claimText).join(", ")}: switched${times.text()}`);
  if (missing !== undefined)
    kubectl.say(`${missing}; the claims have their new volumes, and csimux move undo gives the old ones back`);
  for (const line of setAdvice(objects, group)) kubectl.say(line);
  return missing === undefined ? 0 : 1;
}

/**
 * While the pods still run, makes a pass, so that the one of the stop is short. No pass follows once an interrupted switch has made the
 * copy a volume: throws MoveRefusal if pods have run since then.
 */
async function prepare(work: MoveWork, moving: Moving): Promise<void> {
  const { target } = noted(moving).note;
  const isUnlanded = moving.fresh === undefined && (await unlanded(work, moving)) !== undefined;
  if (isUnlanded) {
    await pass(work, moving);
    return;
  }
  const { pods, workloads } = usersOf(work.objects, moving);
  if (pods.length === 0 && workloads.every(each => each.replicas === 0)) return refuseStarted(work, moving);
  throw new MoveRefusal(
    `pods use claim ${claimText(moving)} again since its copy became the volume ${target}, which lacks what they write; ${copyAgain}`,
  );
}

/** Throws MoveRefusal if pods may have started and ended since the last pass. */
async function refuseStarted(work: MoveWork, moving: Moving): Promise<void> {
  const started = await startedSince(work, moving);
  if (started === undefined) return;
  throw new MoveRefusal(
    `${started} was changed since the last pass of claim ${claimText(moving)}, so its pods may have run since then: ${lost}`,
  );
}

/** A pass, unless an interrupted switch has made the copy a volume already: its record goes then. */
async function passUnlessFinished(work: MoveWork, moving: Moving) {
  const state = await unlanded(work, moving);
  return state ? { before: state.pass, made: await pass(work, moving) } : { before: -1, made: undefined };
}

/** The record of a copy that is not a volume yet. */
async function unlanded({ controller }: MoveWork, moving: Moving) {
  const found = await controller.find(noted(moving).note.target);
  return found?.state === "finished" ? undefined : found;
}

/** Freezes the old volume, copies what is left, and makes the PersistentVolume of the new one. */
async function land(work: MoveWork, moving: Moving): Promise<Moving> {
  const { note, old } = noted(moving);
  if (stateOf(moving) === "new") return moving;
  if (moving.fresh === undefined) {
    await freeze(work, moving);
    const volume = await landed(work, moving);
    const toClass = targetClass(work, note.toClass);
    const manifest = volumeManifest({ ...note, name: note.volume, old, toClass, volume });
    await work.kubectl.change(["create", "-f", "-"], manifest);
  }
  const now = await again(work, moving);
  checkFresh(now);
  return now;
}

/** The volume of a copy that holds everything that was written before the stop. */
async function landed(work: MoveWork, moving: Moving): Promise<LandedVolume> {
  const { target } = noted(moving).note;
  // A pass that was begun before the freeze has a snapshot from before it; one with a higher number has not.
  let last = await passUnlessFinished(work, moving);
  const { before } = last;
  while (last.made?.continued && last.made.number <= before) last = { before, made: await pass(work, moving) };
  const { volume } = await work.controller.finish(target);
  if (volume === undefined || volume.handle !== target)
    throw new MoveRefusal(`csimux did not describe the volume ${target}`);
  return volume;
}

/** Throws MoveRefusal if a PersistentVolume that this move has not created has the name of the new one. */
function checkFresh(moving: Moving): void {
  const { note } = noted(moving);
  const owner = claimOfVolume(moving.fresh);
  if (owner?.uid === noClaim)
    throw new MoveRefusal(
      `claim ${claimText(moving)} cannot get the volume ${note.target} any more: pods have used the old one since the last pass, or an undo has begun; ${copyAgain}`,
    );
  const isOurs =
    handleOf(moving.fresh) === note.target &&
    textAt(moving.fresh, "spec", "persistentVolumeReclaimPolicy") === "Retain" &&
    owner !== undefined &&
    claimText(owner) === claimText(moving);
  if (!isOurs)
    throw new MoveRefusal(
      `the PersistentVolume ${note.volume} is not the new one of claim ${claimText(moving)}, or does not have the policy Retain`,
    );
}

async function freeze(work: MoveWork, moving: Moving): Promise<void> {
  const handle = moving.source;
  const { instead } = await work.controller.freeze(handle).catch((error: unknown) => {
    if (!(error instanceof CopyRefusal) || error.code !== "failed-precondition") throw error;
    return { instead: [error.message] };
  });
  // No node has the volume mounted; read-only would only turn a mistaken write into an error.
  if (instead?.length)
    work.kubectl.say(`${claimText(moving)}: ${handle} stays writable, because its storage cannot set it to read-only`);
}

/** Replaces the claim by one of the same name with the new volume. */
async function swap(work: MoveWork, moving: Moving): Promise<Moving> {
  const state = stateOf(moving);
  const { note } = noted(moving);
  if (state === "other") throw new MoveRefusal(otherVolume(moving));
  if (state === "old") {
    // Pods may have started since the last pass; the claim's protection would only delay its deletion.
    const missing = await holders(work.kubectl, [moving], note.nodes);
    await refusePods(work, moving);
    if (missing?.isSure) await withdrawVolume(work, await volumeNow(work, note.volume));
    if (missing !== undefined) throw new MoveRefusal(`${missing.text}: ${lost}`);
    await refuseStarted(work, moving);
    await deleteClaim(work, moving, () => refusePods(work, moving));
  }
  await createClaim(work, moving, claimManifest(note.claim, note.toClass, note.volume));
  return again(work, moving);
}

const copyAgain = "run csimux move undo and finish, and copy it again";
const lost = `their writes would not be in the new volume; ${copyAgain}`;

/** Throws MoveRefusal if pods use the old volume. Withdraws the new one before: a repetition may come after they have written and ended. */
async function refusePods(work: MoveWork, moving: Moving): Promise<void> {
  const pods = await podsUsing(work.kubectl, [moving]);
  if (pods.length === 0) return;
  await withdrawVolume(work, await volumeNow(work, noted(moving).note.volume));
  throw new MoveRefusal(`pods still use the claims: ${pods.join(", ")}: ${lost}`);
}

/** Measures the steps of the stop. */
class Stopwatch {
  #from: number | undefined;
  #last = 0;
  readonly #laps: string[] = [];

  begin(): void {
    this.#from = performance.now();
    this.#last = this.#from;
  }

  lap(name: string): void {
    const now = performance.now();
    if (this.#from !== undefined) this.#laps.push(`${name} ${((now - this.#last) / 1000).toFixed(1)} s`);
    this.#last = now;
  }

  text(): string {
    return this.#from === undefined
      ? ""
      : `; stopped for ${((this.#last - this.#from) / 1000).toFixed(1)} s: ${this.#laps.join(", ")}`;
  }
}
