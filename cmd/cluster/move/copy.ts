import { size } from "../../../lib/core/amounts.ts";
import type { Mapping } from "../../../lib/core/mapping.ts";
import { volumeName } from "../../../lib/core/name.ts";
import { textAt } from "../../../lib/lint/lint-input.ts";
import type { Moving } from "./cluster-objects.ts";
import type { CopyDone, PassProgress, WantedCopy } from "./controller.ts";
import { claimManifest } from "./objects/manifests.ts";
import { annotation, type MoveNote, noteText } from "./objects/note.ts";
import { claimText, classOf, isBlock, modesOf, placeOfObject, quantityBytes, textsAt } from "./objects/objects.ts";
import { createParameters } from "./objects/secrets.ts";
import { MoveRefusal } from "./refusal.ts";
import { refusalsOf } from "./refusals.ts";
import { again, forEachClaim, type MoveWork, noted, setPolicy, stateOf, writeNote } from "./work.ts";

/** The most passes of one command, and how short a pass must be so that no further one follows. */
const shortSeconds = 60;
const maxRounds = 5;

/** The access modes of CSI for those of Kubernetes (external-provisioner 6.3, controller.go; CSI 1.13, VolumeCapability.AccessMode). */
const accessModes: Readonly<
  Record<
    string,
    "single-node-writer" | "multi-node-reader-only" | "multi-node-multi-writer" | "single-node-single-writer"
  >
> = {
  ReadWriteOnce: "single-node-writer",
  ReadOnlyMany: "multi-node-reader-only",
  ReadWriteMany: "multi-node-multi-writer",
  ReadWriteOncePod: "single-node-single-writer",
};

/** The parameters of the new volume of a claim. Throws MoveRefusal for a size that cannot be read. */
export function wantedCopy(
  { claim, old, source, ...place }: Moving,
  name: string,
  target: Mapping,
  attributes: Mapping | undefined,
): WantedCopy {
  const has = quantityBytes(textAt(old, "spec", "capacity", "storage"));
  const asked = quantityBytes(textAt(claim, "spec", "resources", "requests", "storage"));
  if (has === undefined || asked === undefined) throw new MoveRefusal(`claim ${claimText(place)} has no size`);
  const kind = isBlock(claim) ? ("block" as const) : ("mount" as const);
  const fsType = kind === "mount" ? textAt(old, "spec", "csi", "fsType") : undefined;
  const parameters = createParameters(textsAt(target, "parameters"), { pv: name, claim: place });
  return {
    source,
    name: volumeName(name, parameters),
    bytes: String(has > asked ? has : asked),
    parameters,
    capabilities: modesOf(claim).flatMap(each => {
      const mode = accessModes[each];
      return mode ? [{ kind, mode, ...(fsType !== undefined && { fsType }) }] : [];
    }),
    mutable: textsAt(attributes, "parameters"),
  };
}

/** The object of the claim's VolumeAttributesClass. */
export const attributesOf = async ({ kubectl }: MoveWork, { claim }: Moving): Promise<Mapping | undefined> => {
  const name = textAt(claim, "spec", "volumeAttributesClassName");
  return name === undefined || name === "" ? undefined : kubectl.get("volumeattributesclass", name);
};

/** The class to which claims move. Throws MoveRefusal if it does not exist. */
export function targetClass({ objects }: Pick<MoveWork, "objects">, name: string | undefined): Mapping {
  const found = objects.classes.find(each => placeOfObject(each).name === name);
  if (found) return found;
  throw new MoveRefusal(`the StorageClass ${name} does not exist`);
}

/** `csimux move copy`: begins each copy and makes passes while the pods run. Nothing is stopped. */
export async function copy(work: MoveWork): Promise<number> {
  const { options, objects, claims, kubectl } = work;
  const { toClass = "" } = options;
  const refusals = refusalsOf(objects, claims, toClass, options);
  if (refusals.length > 0) throw new MoveRefusal(...refusals);
  await forEachClaim(claims, async claim => checkPlan(work, claim));
  await forEachClaim(claims, async claim => {
    const begun = await begin(work, await note(work, claim, toClass));
    await passes(work, begun);
  });
  kubectl.say(`next: csimux move switch, which stops the pods for the last pass`);
  return 0;
}

/** Asks the controller about every claim before anything is changed. Throws MoveRefusal with its reason. */
async function checkPlan(work: MoveWork, claim: Moving): Promise<CopyDone> {
  const target = targetClass(work, work.options.toClass);
  const name = claim.note?.volume ?? nameOf(claim, 1);
  return work.controller.plan(wantedCopy(claim, name, target, await attributesOf(work, claim)));
}

const nameOf = ({ claim }: Pick<Moving, "claim">, attempt: number): string =>
  `moved-${textAt(claim, "metadata", "uid")}-${attempt}`;

/** A name that no earlier move of this claim has used: the record of a cancelled copy may still exist. */
async function freeName({ controller, objects }: MoveWork, moving: Moving): Promise<string> {
  const used = new Set([
    ...(await controller.list()).map(each => each.name),
    ...objects.volumes.map(each => placeOfObject(each).name),
  ]);
  let attempt = 1;
  while (used.has(nameOf(moving, attempt))) attempt++;
  return nameOf(moving, attempt);
}

/** Writes the annotation of the move and the policy Retain to the old PersistentVolume, in one change. */
async function note(work: MoveWork, moving: Moving, toClass: string): Promise<Moving> {
  const { kubectl } = work;
  const { claim, old } = moving;
  if (moving.note !== undefined && old !== undefined) {
    await setPolicy(work, old, "Retain");
    return again(work, moving);
  }
  if (claim === undefined || old === undefined) throw new MoveRefusal(`claim ${claimText(moving)} has no volume`);
  const made: MoveNote = {
    step: "copy",
    toClass,
    volume: await freeName(work, moving),
    target: "",
    rounds: 0,
    policy: textAt(old, "spec", "persistentVolumeReclaimPolicy") ?? "Retain",
    workloads: [],
    nodes: [],
    claim: claimManifest(claim, classOf(claim), placeOfObject(old).name),
  };
  await kubectl.patch("pv", old, {
    metadata: { annotations: { [annotation]: noteText(made) } },
    spec: { persistentVolumeReclaimPolicy: "Retain" },
  });
  return again(work, moving);
}

/** Begins the copy, or finds it. */
async function begin(work: MoveWork, moving: Moving): Promise<Moving> {
  const { note } = noted(moving);
  const wanted = wantedCopy(moving, note.volume, targetClass(work, note.toClass), await attributesOf(work, moving));
  const { target, method, instead } = await work.controller.begin(wanted);
  if (target === undefined)
    throw new MoveRefusal(`csimux did not say the id of the copy of claim ${claimText(moving)}`);
  if (note.target === "")
    work.kubectl.say(
      `${claimText(moving)}: copying to ${target} (${method ?? "unknown method"})${instead?.length ? `; ${instead.join("; ")}` : ""}`,
    );
  return writeNote(work, moving, { target });
}

async function passes(work: MoveWork, moving: Moving): Promise<void> {
  let claim = moving;
  for (let each = 0; each < maxRounds; each++) {
    const { seconds } = await pass(work, claim);
    claim = await writeNote(work, claim, { rounds: noted(claim).note.rounds + 1 });
    if (seconds < shortSeconds) return;
  }
}

/** Passes on the text of the first progress in each 10 % of a pass, and each new text where its size is unknown. */
export function byTenths(tell: (text: string) => void): (progress: PassProgress) => void {
  let told: string | bigint | undefined;
  return ({ text, done, total }) => {
    const step = total > 0n ? (done * 10n) / total : text;
    if (step === told) return;
    told = step;
    tell(text);
  };
}

/** One pass of one claim, with its progress. */
export async function pass({ controller, kubectl }: MoveWork, moving: Moving): Promise<NonNullable<CopyDone["pass"]>> {
  const name = claimText(moving);
  const tell = byTenths(text => kubectl.say(`${name}: ${text}`));
  const { pass: made } = await controller.pass(noted(moving).note.target, tell);
  if (made === undefined) throw new MoveRefusal(`csimux did not say what it copied for claim ${name}`);
  kubectl.say(`${name}: pass ${made.number + 1} copied ${size(made.bytes)} in ${Math.round(made.seconds)} s`);
  return made;
}

/** Whether a claim still has its old volume and a copy has begun. Throws MoveRefusal. */
export function mustBeCopied(moving: Moving): void {
  if (noted(moving).note.target === "" && stateOf(moving) === "old")
    throw new MoveRefusal(`claim ${claimText(moving)} has not been copied; run csimux move copy`);
}
