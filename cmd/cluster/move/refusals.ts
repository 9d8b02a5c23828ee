import { parseHandle } from "../../../lib/core/handle.ts";
import type { Mapping } from "../../../lib/core/mapping.ts";
import { textAt } from "../../../lib/lint/lint-input.ts";
import { type ClusterObjects, type Moving, sharersOf } from "./cluster-objects.ts";
import { maxClaimBytes } from "./objects/note.ts";
import {
  claimText,
  classOf,
  controllerOf,
  mappingsAt,
  placeOfObject,
  quantityBytes,
  textsAt,
} from "./objects/objects.ts";
import type { MoveOptions } from "./options.ts";
import { templateOf, type Users, usersOf, type Workload, workloadText } from "./users.ts";
import { otherVolume, stateOf } from "./work.ts";

/** The flags with which a person confirms that operators and GitOps tools are paused. */
export type Pauses = Pick<MoveOptions, "isOwnerPaused" | "isGitopsPaused">;

/** Why these claims cannot be moved to a class, one line for each reason; empty if they can. Pure. */
export function refusalsOf(
  objects: ClusterObjects,
  claims: readonly Moving[],
  toClass: string,
  pauses: Pauses,
): readonly string[] {
  const target = objects.classes.find(each => placeOfObject(each).name === toClass);
  if (target === undefined) return [`the StorageClass ${toClass} does not exist`];
  const users = new Map(claims.map(each => [each, usersOf(objects, each)]));
  const workloads = [
    ...new Map([...users.values()].flatMap(each => each.workloads).map(each => [keyOf(each), each])).values(),
  ];
  return [
    ...claims.flatMap(each => claimRefusals(each, target, pauses)),
    ...claims.flatMap(each => sharedRefusals(each, objects)),
    ...claims.flatMap(each => userRefusals(each, users.get(each), objects)),
    ...workloads.flatMap(each => workloadRefusals(each, objects, pauses)),
    ...workloads.flatMap(each => missingOrdinals(each, claims, objects, toClass)),
  ];
}

const keyOf = (each: Workload): string => `${each.namespace}/${workloadText(each)}`;

function claimRefusals(moving: Moving, target: Mapping, pauses: Pauses): readonly string[] {
  const { claim, old } = moving;
  const name = `claim ${claimText(moving)}`;
  if (claim === undefined) return [`${name} does not exist`];
  const phase = textAt(claim, "status", "phase");
  if (textAt(claim, "metadata", "deletionTimestamp") !== undefined) return [`${name} is being deleted`];
  if (phase !== "Bound") return [`${name} is ${phase ?? "new"}, not Bound`];
  if (old === undefined) return [`${name} has no PersistentVolume`];
  if (stateOf(moving) === "other") return [otherVolume(moving)];
  return [
    ...boundRefusals(name, moving, old, target),
    ...ownerRefusals(name, claim, pauses),
    ...(isExpanding(claim) ? [`${name} is being expanded; wait until it has its new size`] : []),
    ...(JSON.stringify(claim).length > maxClaimBytes
      ? [`${name} has more than ${maxClaimBytes >> 10} KiB of labels and annotations; remove some`]
      : []),
    ...markedBy(claim).flatMap(by =>
      pauses.isGitopsPaused ? [] : [`${name} is managed by ${by}, which would restore its class: ${pauseIt}`],
    ),
  ];
}

/** Pods of another claim with the same storage are not stopped, and what they write after the last pass would be lost. */
const sharedRefusals = (moving: Moving, objects: ClusterObjects): readonly string[] =>
  sharersOf(objects, moving.old).map(
    other =>
      `claim ${claimText(moving)} has the same storage as the PersistentVolume ${other}, whose users csimux does not stop: delete that first (with the policy Retain)`,
  );

const pauseIt = "pause it, and give --gitops-paused";

function boundRefusals(
  name: string,
  { note, source, driver: own }: Moving,
  old: Mapping,
  target: Mapping,
): readonly string[] {
  const { name: toClass } = placeOfObject(target);
  const driver = textAt(old, "spec", "csi", "driver");
  const provisioner = textAt(target, "provisioner");
  if (driver === undefined) return [`${name} has a volume that no CSI driver made`];
  if (own !== provisioner)
    return [`${name} has a volume of the driver ${driver}, but class ${toClass} belongs to ${provisioner}`];
  if (textAt(old, "metadata", "deletionTimestamp") !== undefined)
    return [`the PersistentVolume of ${name} is being deleted`];
  const policy = textAt(old, "spec", "persistentVolumeReclaimPolicy") ?? "Retain";
  if (policy !== "Retain" && policy !== "Delete")
    return [`the PersistentVolume of ${name} has the reclaim policy ${policy}; set it to Retain or Delete`];
  const connection = parseHandle(source, "volume")?.connection;
  const to = textsAt(target, "parameters")["connection"];
  if (connection !== undefined && connection === to)
    return [`${name} is on connection ${connection} already, to which class ${toClass} leads`];
  if (note === undefined) return [];
  if (note.step === "switched" || note.step === "undone")
    return [
      `${name} has a move that is not finished: run csimux move finish${note.step === "switched" ? " or undo" : ""} first`,
    ];
  return note.toClass === toClass
    ? []
    : [`${name} is being moved to class ${note.toClass}: run csimux move undo first`];
}

function ownerRefusals(name: string, claim: Mapping, { isOwnerPaused }: Pauses): readonly string[] {
  return mappingsAt(claim, "metadata", "ownerReferences").flatMap(({ kind, name: owner }) => {
    if (kind === "StatefulSet") return [];
    if (kind === "Pod")
      return [`${name} is an ephemeral volume of pod ${owner} and is deleted with it, so it cannot be moved`];
    return isOwnerPaused ? [] : [`${name} is owned by ${kind} ${owner}: pause its operator, and give --owner-paused`];
  });
}

function isExpanding(claim: Mapping): boolean {
  const wanted = quantityBytes(textAt(claim, "spec", "resources", "requests", "storage")) ?? 0n;
  const has = quantityBytes(textAt(claim, "status", "capacity", "storage")) ?? 0n;
  const conditions = mappingsAt(claim, "status", "conditions").map(each => textAt(each, "type"));
  return wanted > has || conditions.includes("Resizing") || conditions.includes("FileSystemResizePending");
}

function userRefusals(moving: Moving, users: Users | undefined, { nodes }: ClusterObjects): readonly string[] {
  const name = claimText(moving);
  const unready = nodes
    .filter(
      node =>
        textAt(
          mappingsAt(node, "status", "conditions").find(each => each["type"] === "Ready"),
          "status",
        ) !== "True",
    )
    .map(node => placeOfObject(node).name);
  return [
    ...(users?.strangers ?? []).map(({ pod, owner }) => {
      if (owner?.startsWith("DaemonSet "))
        return `${owner} uses claim ${name}, and it cannot be stopped: delete it first`;
      if (owner === undefined)
        return `pod ${pod} uses claim ${name} and has no owner that would start it again: delete it first`;
      return `pod ${pod} of ${owner} uses claim ${name}, and csimux cannot stop it: stop it first`;
    }),
    ...(users?.pods ?? []).flatMap(pod => {
      const node = textAt(pod, "spec", "nodeName");
      return node !== undefined && unready.includes(node)
        ? [
            `pod ${placeOfObject(pod).name} uses claim ${name} on node ${node}, which is not ready, so csimux could not prove that it has ended: wait for the node`,
          ]
        : [];
    }),
  ];
}

function workloadRefusals(workload: Workload, { autoscalers }: ClusterObjects, pauses: Pauses): readonly string[] {
  const { object, kind, name, namespace } = workload;
  const text = `${kind} ${namespace}/${name}`;
  const owner = controllerOf(object);
  const scaledBy = autoscalers
    .filter(each => placeOfObject(each).namespace === namespace)
    .filter(
      each =>
        textAt(each, "spec", "scaleTargetRef", "kind") === kind &&
        textAt(each, "spec", "scaleTargetRef", "name") === name,
    )
    .map(each => `the HorizontalPodAutoscaler ${placeOfObject(each).name}`);
  const restoring = [...scaledBy, ...markedBy(object)];
  return [
    ...(owner !== undefined && !pauses.isOwnerPaused
      ? [`${text} is owned by ${owner["kind"]} ${owner["name"]}: pause its operator, and give --owner-paused`]
      : []),
    ...(pauses.isGitopsPaused
      ? []
      : restoring.map(by => `${text} is managed by ${by}, which would start its pods: ${pauseIt}`)),
    ...(textAt(object, "spec", "persistentVolumeClaimRetentionPolicy", "whenScaled") === "Delete"
      ? [
          `${text} deletes its claims when it is scaled down (persistentVolumeClaimRetentionPolicy.whenScaled): set it to Retain first`,
        ]
      : []),
  ];
}

/**
 * The GitOps tools and autoscalers that restore an object. Sources: argo-cd 3.1, docs/user-guide/resource_tracking.md; Flux 2.6, kustomize-controller
 * and helm-controller, owner labels; KEDA 2.17 scales through a HorizontalPodAutoscaler, and pods at 0 by itself (scaledobject labels).
 */
function markedBy(object: Mapping): readonly string[] {
  const labels = textsAt(object, "metadata", "labels");
  const annotations = textsAt(object, "metadata", "annotations");
  return [
    ...(annotations["argocd.argoproj.io/tracking-id"] !== undefined ||
    labels["argocd.argoproj.io/instance"] !== undefined
      ? ["Argo CD"]
      : []),
    ...(labels["kustomize.toolkit.fluxcd.io/name"] !== undefined || labels["helm.toolkit.fluxcd.io/name"] !== undefined
      ? ["Flux"]
      : []),
    ...(labels["scaledobject.keda.sh/name"] !== undefined ? ["KEDA"] : []),
  ];
}

/** The claims of a StatefulSet's template that are not moved with the others. */
function missingOrdinals(
  set: Workload,
  moved: readonly Moving[],
  { claims }: ClusterObjects,
  toClass: string,
): readonly string[] {
  const isMoved = (name: string): boolean => moved.some(each => each.namespace === set.namespace && each.name === name);
  const near = claims.filter(each => placeOfObject(each).namespace === set.namespace);
  const templates = new Set(
    moved.flatMap(each => (each.namespace === set.namespace ? (templateOf(set.object, each.name) ?? []) : [])),
  );
  const missing = near
    .filter(each => classOf(each) !== toClass)
    .map(each => placeOfObject(each).name)
    .filter(name => templates.has(templateOf(set.object, name) ?? "") && !isMoved(name));
  return missing.length === 0
    ? []
    : [
        `StatefulSet ${set.namespace}/${set.name} has further claims of the same template, which move together: ${missing.join(", ")}`,
      ];
}
