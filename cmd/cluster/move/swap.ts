import type { Mapping } from "../../../lib/core/mapping.ts";
import { textAt } from "../../../lib/lint/lint-input.ts";
import type { Moving } from "./cluster-objects.ts";
import { claimOfVolume, claimText, listOfTexts, noClaim, placeOfObject } from "./objects/objects.ts";
import { MoveRefusal } from "./refusal.ts";
import { type MoveWork, volumeNow, wasBound } from "./work.ts";

/** How long Kubernetes may take to delete and to bind a claim, in milliseconds. */
const limitMs = 300_000;

/**
 * Deletes a claim so that its volume stays. Throws MoveRefusal unless the volume has the policy Retain, read after it was set. The uid in the
 * request makes sure that only the claim that was read is deleted. `waits` runs while it still exists, and may throw.
 */
export async function deleteClaim(
  work: MoveWork,
  { namespace, name, claim }: Moving,
  waits = async (): Promise<void> => {},
): Promise<void> {
  const { kubectl } = work;
  if (claim === undefined) return;
  const volume = textAt(claim, "spec", "volumeName") ?? "";
  const kept = textAt(await volumeNow(work, volume), "spec", "persistentVolumeReclaimPolicy");
  if (kept !== "Retain")
    throw new MoveRefusal(`the PersistentVolume ${volume} has the reclaim policy ${kept}, not Retain`);
  const uid = textAt(claim, "metadata", "uid");
  if (textAt(claim, "metadata", "deletionTimestamp") === undefined) {
    const options = { apiVersion: "v1", kind: "DeleteOptions", preconditions: { uid } };
    const path = `/api/v1/namespaces/${namespace}/persistentvolumeclaims/${name}`;
    await kubectl.change(["delete", `--raw=${path}`, "-f", "-"], options);
  }
  await kubectl.wait(limitMs, async () => {
    const now = await kubectl.get("pvc", name, namespace);
    if (now === undefined || textAt(now, "metadata", "uid") !== uid) return "done";
    await waits();
    return {
      missing: `claim ${namespace}/${name} is not gone: ${listOfTexts(now, "metadata", "finalizers").join(", ")}`,
    };
  });
}

/** Makes a claim that asks for its volume by name, and waits until both are bound. Throws MoveRefusal if another claim has its name. */
export async function createClaim(work: MoveWork, moving: Moving, manifest: Mapping): Promise<void> {
  const { kubectl } = work;
  const { namespace, name } = moving;
  const volume = textAt(manifest, "spec", "volumeName");
  const now = await kubectl.get("pvc", name, namespace);
  if (now === undefined) await kubectl.change(["create", "-f", "-"], manifest);
  else if (textAt(now, "spec", "volumeName") !== volume)
    throw new MoveRefusal(
      `another claim ${claimText(moving)} was made meanwhile, for another volume; delete it, and repeat the command`,
    );
  await kubectl.wait(limitMs, async () => {
    const claim = await kubectl.get("pvc", name, namespace);
    const phase = textAt(claim, "status", "phase") ?? "gone";
    return phase === "Bound" ? "done" : { missing: `claim ${claimText(moving)} is ${phase}, not Bound to ${volume}` };
  });
}

/** Makes a volume available to the next claim of its name: its last claim is gone. Throws MoveRefusal if it is not. */
export async function offerVolume(work: MoveWork, volume: Mapping): Promise<void> {
  const { kubectl } = work;
  const owner = claimOfVolume(volume);
  if (owner === undefined || owner.uid === "") return;
  const now = await kubectl.get("pvc", owner.name, owner.namespace);
  if (now !== undefined && textAt(now, "metadata", "uid") === owner.uid)
    throw new MoveRefusal(
      `the PersistentVolume ${placeOfObject(volume).name} is still bound to claim ${claimText(owner)}`,
    );
  await kubectl.patch("pv", volume, { spec: { claimRef: { uid: null, resourceVersion: null } } });
}

/** Makes sure that no later claim of its name takes a volume. */
export async function withdrawVolume(work: MoveWork, volume: Mapping): Promise<void> {
  if (!wasBound(volume) && claimOfVolume(volume)?.uid !== noClaim)
    await work.kubectl.patch("pv", volume, { spec: { claimRef: { uid: noClaim } } });
}
