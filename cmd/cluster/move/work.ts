import type { Mapping } from "../../../lib/core/mapping.ts";
import { mapLimit } from "../../../lib/core/semaphore.ts";
import { textAt } from "../../../lib/lint/lint-input.ts";
import {
  type ClusterObjects,
  claimsMeant,
  type Moving,
  movingOf,
  readObjects,
  withoutAlias,
} from "./cluster-objects.ts";
import { CopyingController, CopyRefusal } from "./controller.ts";
import type { Kubectl } from "./kubectl.ts";
import { annotation, type MoveNote, noteOf, noteText } from "./objects/note.ts";
import { type ClaimName, claimOfVolume, claimText, noClaim, placeOfObject } from "./objects/objects.ts";
import type { MoveOptions } from "./options.ts";
import { MoveRefusal } from "./refusal.ts";
import { checkRights } from "./rights.ts";

/** How many claims are worked on at once. */
const atOnce = 4;

/** What every command uses: the cluster, the controller, and the claims to move. */
export interface MoveWork {
  readonly kubectl: Kubectl;
  readonly controller: CopyingController;
  readonly options: MoveOptions;
  readonly claims: readonly Moving[];
  readonly objects: ClusterObjects;
}

/** Reads the cluster. Throws MoveRefusal if a right is missing, or the claims have volumes of several drivers. */
export async function beginWork(options: MoveOptions, kubectl: Kubectl): Promise<MoveWork> {
  const names = await claimsMeant(kubectl, options);
  const namespaces = [...new Set(names.map(({ namespace }) => namespace))];
  await checkRights(kubectl, namespaces);
  const found = await readObjects(kubectl, namespaces);
  const claims = names.map(each => movingOf(found, each));
  const drivers = [...new Set(claims.flatMap(each => textAt(each.old, "spec", "csi", "driver") ?? []))];
  if (drivers.length > 1) throw new MoveRefusal(`the claims have volumes of several drivers: ${drivers.join(", ")}`);
  const [driver] = drivers;
  if (driver === undefined)
    throw new MoveRefusal(...claims.map(each => `claim ${claimText(each)} ${withoutVolume(each)}`));
  const controller = new CopyingController(kubectl, driver);
  const served = await controller.served();
  const known = claims.map(each => withoutAlias(each, served));
  const objects = { ...found, served };
  return { kubectl, controller, options, claims: known, objects };
}

const withoutVolume = ({ claim }: Moving): string =>
  claim === undefined ? "does not exist" : "has no PersistentVolume of a CSI driver";

/** The note of a claim that must be in a move. Throws MoveRefusal. */
export function noted(moving: Moving): { readonly note: MoveNote; readonly old: Mapping } {
  const { note, old } = moving;
  if (note === undefined || old === undefined)
    throw new MoveRefusal(`claim ${claimText(moving)} is not being moved; begin with csimux move copy`);
  return { note, old };
}

/** Where a claim is in its move. */
export function stateOf(moving: Moving): "old" | "new" | "none" | "other" {
  const volume = textAt(moving.claim, "spec", "volumeName");
  if (moving.claim === undefined) return "none";
  if (volume === placeOfObject(moving.old).name) return "old";
  return volume !== undefined && volume === moving.note?.volume ? "new" : "other";
}

/**
 * What to say about a claim in the state "other": a program may have made it again during the switch, with an empty volume, or a person after
 * the copy had begun, and its data is in the volume that it has now.
 */
export const otherVolume = (moving: Moving): string =>
  `claim ${claimText(moving)} is for another volume now (${textAt(moving.claim, "spec", "volumeName") ?? "none yet"}): if that has data, keep it, and end the move of the earlier volume with kubectl annotate pv ${placeOfObject(moving.old).name} ${annotation}-; if it is empty, delete the claim, and repeat csimux move switch or undo`;

/** Whether a claim was deleted, and exists only until the last pod that uses it has ended. */
export const isBeingDeleted = ({ claim }: Pick<Moving, "claim">): boolean =>
  textAt(claim, "metadata", "deletionTimestamp") !== undefined;

/** Reads a claim and its volumes again. */
export async function again({ kubectl }: Pick<MoveWork, "kubectl">, moving: Moving): Promise<Moving> {
  const { old, fresh, note } = moving;
  const names = [placeOfObject(old).name, note?.volume ?? placeOfObject(fresh).name].filter(name => name !== "");
  const found = await Promise.all(names.map(name => kubectl.get("pv", name)));
  const claim = await kubectl.get("pvc", moving.name, moving.namespace);
  const volumes = found.filter(each => each !== undefined);
  const { source, driver } = moving;
  return { ...movingOf({ claims: claim ? [claim] : [], volumes }, moving), source, driver };
}

/** Changes what the annotation of the old volume says. Returns the claim with its new note. */
export async function writeNote(work: MoveWork, moving: Moving, change: Partial<MoveNote>): Promise<Moving> {
  const { note, old } = noted(moving);
  const next = { ...note, ...change };
  if (noteText(next) === noteText(note)) return moving;
  await work.kubectl.patch("pv", old, { metadata: { annotations: { [annotation]: noteText(next) } } });
  return again(work, moving);
}

/** Works on several claims at once, and throws the first refusal after all have ended. */
export async function forEachClaim<R>(
  claims: readonly Moving[],
  task: (claim: Moving) => Promise<R>,
): Promise<readonly R[]> {
  const ended = await mapLimit(claims, atOnce, async claim => {
    try {
      return { value: await task(claim) };
    } catch (error) {
      return { error: namedAfter(claim, error) };
    }
  });
  const failed = ended.flatMap(each => ("error" in each ? [each.error] : []));
  const [first] = failed;
  if (first === undefined) return ended.flatMap(each => ("value" in each ? [each.value as R] : []));
  if (!failed.every(each => each instanceof MoveRefusal)) throw first;
  throw new MoveRefusal(...new Set(failed.flatMap(each => (each instanceof MoveRefusal ? each.reasons : []))));
}

function namedAfter(claim: ClaimName, error: unknown): unknown {
  return error instanceof CopyRefusal ? new MoveRefusal(`claim ${claimText(claim)}: ${error.message}`) : error;
}

/** A volume that is still as it was read when it is changed. Throws MoveRefusal if it was deleted. */
export async function volumeNow({ kubectl }: Pick<MoveWork, "kubectl">, name: string): Promise<Mapping> {
  const found = await kubectl.get("pv", name);
  if (found === undefined) throw new MoveRefusal(`the PersistentVolume ${name} is gone`);
  return found;
}

/** Sets the reclaim policy, if it is another one. */
export async function setPolicy(work: MoveWork, volume: Mapping, policy: string): Promise<void> {
  if (textAt(volume, "spec", "persistentVolumeReclaimPolicy") === policy) return;
  await work.kubectl.patch("pv", volume, { spec: { persistentVolumeReclaimPolicy: policy } });
}

/** Ends a move: the old volume gets its reclaim policy back and loses its note. */
export async function endMove(work: MoveWork, old: Mapping): Promise<void> {
  const note = noteOf(old);
  if (note === undefined) return;
  await work.kubectl.patch("pv", old, {
    metadata: { annotations: { [annotation]: null } },
    spec: { persistentVolumeReclaimPolicy: note.policy },
  });
}

/** Whether a volume was ever bound to a claim of this move. */
export const wasBound = (volume: Mapping | undefined): boolean => {
  const uid = claimOfVolume(volume)?.uid ?? "";
  return uid !== "" && uid !== noClaim;
};
