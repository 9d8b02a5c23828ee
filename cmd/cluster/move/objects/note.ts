import { parseHandle } from "../../../../lib/core/handle.ts";
import { isMapping, type Mapping, mappingIn } from "../../../../lib/core/mapping.ts";
import { textAt } from "../../../../lib/lint/lint-input.ts";
import { MoveRefusal } from "../refusal.ts";
import { type ClaimName, claimOfVolume, claimText, isObjectName, mappingsAt, textsAt } from "./objects.ts";

/** The annotation of the old PersistentVolume in which a move keeps what the next command needs. */
export const annotation = "csimux.storage/move";

/** The kinds of workloads that can be stopped by their number of pods. */
export const workloadKinds = ["StatefulSet", "Deployment", "ReplicaSet"] as const;

/** A workload that uses a claim, and the number of pods it had. */
export interface StoppedWorkload {
  readonly kind: (typeof workloadKinds)[number];
  readonly name: string;
  readonly replicas: number;
  /** Its version while it was stopped, which each change of its number of pods counts up; undefined before. */
  readonly generation?: number;
}

/** How far a move has come; everything else is seen in the cluster and in the record of the copy. */
export type MoveStep = "copy" | "stop" | "switched" | "undone";

/** What the annotation says. */
export interface MoveNote {
  readonly step: MoveStep;
  /** The name of the class to which the claim moves. */
  readonly toClass: string;
  /** The name of the new PersistentVolume, which is also the name of the copy. */
  readonly volume: string;
  /** The CSI id of the copy; empty before it has begun. */
  readonly target: string;
  /** How many passes are complete. */
  readonly rounds: number;
  /** The reclaim policy before the move. */
  readonly policy: string;
  /** The workloads that were stopped, and the nodes on which their pods were. */
  readonly workloads: readonly StoppedWorkload[];
  readonly nodes: readonly string[];
  /** The claim before the move, to make it again. */
  readonly claim: Mapping;
}

/** The longest claim that a move keeps; all annotations together may have 256 KiB (apimachinery 0.36, pkg/api/validation/objectmeta.go). */
export const maxClaimBytes = 100 << 10;

/** The text of the annotation. */
export const noteText = (note: MoveNote): string => JSON.stringify({ version: 1, ...note });

/**
 * The note of a volume; undefined if it has none. Throws MoveRefusal for one that this csimux did not write, because its names decide what is
 * stopped, deleted and created.
 */
export function noteOf(volume: unknown): MoveNote | undefined {
  const text = textAt(volume, "metadata", "annotations", annotation);
  if (text === undefined) return undefined;
  const name = textAt(volume, "metadata", "name") ?? "";
  const note = parsed(text, claimOfVolume(volume));
  if (note) return note;
  throw new MoveRefusal(`the annotation ${annotation} of the PersistentVolume ${name} is damaged or of a newer csimux`);
}

function parsed(text: string, owner: ClaimName | undefined): MoveNote | undefined {
  const value = mappingIn(text);
  if (value?.["version"] !== 1 || owner === undefined) return undefined;
  const { step, toClass = "", volume = "", target = "", policy = "" } = textsAt(value);
  const { rounds, nodes, claim } = value;
  const workloads = mappingsAt(value, "workloads").flatMap(workloadOf);
  const sameClaim = textsAt(claim, "metadata");
  const isRight =
    (step === "copy" || step === "stop" || step === "switched" || step === "undone") &&
    isObjectName(toClass) &&
    isObjectName(volume) &&
    (target === "" || parseHandle(target, "volume") !== undefined) &&
    ["Retain", "Delete"].includes(policy) &&
    typeof rounds === "number" &&
    Array.isArray(nodes) &&
    nodes.every(each => typeof each === "string" && isObjectName(each)) &&
    isMapping(claim) &&
    sameClaim["namespace"] === owner.namespace &&
    sameClaim["name"] === owner.name &&
    workloads.length === mappingsAt(value, "workloads").length;
  return isRight
    ? { step, toClass, volume, target, policy, rounds, nodes: nodes.map(String), workloads, claim }
    : undefined;
}

function workloadOf(value: Mapping): readonly StoppedWorkload[] {
  const { kind, name = "" } = textsAt(value);
  const found = workloadKinds.find(each => each === kind);
  const { replicas, generation } = value;
  const isRight =
    found && isObjectName(name) && typeof replicas === "number" && Number.isInteger(replicas) && replicas >= 0;
  return isRight ? [{ kind: found, name, replicas, ...(typeof generation === "number" && { generation }) }] : [];
}

/** The first volume in this list that a move of the claim has noted. Throws MoveRefusal for two. */
export function notedVolume(volumes: readonly Mapping[], claim: ClaimName): Mapping | undefined {
  const found = volumes.filter(each => {
    const owner = claimOfVolume(each);
    const isNoted = textAt(each, "metadata", "annotations", annotation) !== undefined;
    return isNoted && owner && claimText(owner) === claimText(claim);
  });
  if (found.length < 2) return found[0];
  const names = found.map(each => textAt(each, "metadata", "name")).join(" and ");
  throw new MoveRefusal(
    `${claimText(claim)} has two moves, in the PersistentVolumes ${names}; end one with csimux move finish`,
  );
}
