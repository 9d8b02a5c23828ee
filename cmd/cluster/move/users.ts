import type { Mapping } from "../../../lib/core/mapping.ts";
import { mappingAt, textAt } from "../../../lib/lint/lint-input.ts";
import type { ClusterObjects } from "./cluster-objects.ts";
import { workloadKinds } from "./objects/note.ts";
import {
  type ClaimName,
  claimsInPod,
  claimText,
  controllerOf,
  mappingsAt,
  numberAt,
  placeOfObject,
} from "./objects/objects.ts";

/** A workload that can be stopped and started by its number of pods. */
export interface Workload extends ClaimName {
  readonly kind: (typeof workloadKinds)[number];
  readonly replicas: number;
  readonly object: Mapping;
}

/** Who uses a claim. */
export interface Users {
  readonly workloads: readonly Workload[];
  /** Pods that name the claim, finished ones included: Kubernetes counts these, too (1.36, pvc_protection_controller.go, podUsesPVC). */
  readonly pods: readonly Mapping[];
  /** Pods that belong to no such workload, with the kind and name of what they belong to. */
  readonly strangers: readonly { readonly pod: string; readonly owner: string | undefined }[];
}

const kindOf = (object: Mapping): string => String(object["kind"]);

/** A workload as text, for kubectl and messages. */
export const workloadText = ({ kind, name }: Pick<Workload, "kind" | "name">): string =>
  `${kind.toLowerCase()}/${name}`;

function workload(object: Mapping): Workload | undefined {
  const kind = workloadKinds.find(each => each === kindOf(object));
  // Without a number, there is one pod (Kubernetes API reference, spec.replicas).
  return kind && { ...placeOfObject(object), kind, replicas: numberAt(object, "spec", "replicas") ?? 1, object };
}

/** The names of the claims that a StatefulSet makes from a template: <template>-<set>-<ordinal> (Kubernetes 1.36, statefulset/stateful_set_utils.go). */
export function templateOf(set: Mapping, claim: string): string | undefined {
  const { name } = placeOfObject(set);
  const template = mappingsAt(set, "spec", "volumeClaimTemplates")
    .map(each => textAt(each, "metadata", "name") ?? "")
    .find(each => claim.startsWith(`${each}-${name}-`) && /^[0-9]+$/.test(claim.slice(`${each}-${name}-`.length)));
  return kindOf(set) === "StatefulSet" ? template : undefined;
}

const usesClaim = (object: Mapping, claim: string): boolean => {
  const template = mappingAt(object, "spec", "template", "spec");
  return claimsInPod(template).includes(claim) || templateOf(object, claim) !== undefined;
};

/** Everything in its namespace that uses a claim, also without a running pod. */
export function usersOf({ pods, workloads }: Pick<ClusterObjects, "pods" | "workloads">, claim: ClaimName): Users {
  const here = (object: Mapping): boolean => placeOfObject(object).namespace === claim.namespace;
  const near = workloads.filter(here);
  const using = pods.filter(here).filter(pod => claimsInPod(pod["spec"]).includes(claim.name));
  const owners = using.map(pod => ({ pod: placeOfObject(pod).name, ...ownerOf(pod, near) }));
  // The ReplicaSets of a Deployment are scaled by it.
  const declared = near.filter(each => controllerOf(each)?.["kind"] !== "Deployment" && usesClaim(each, claim.name));
  const tops = owners.map(({ top }) => top).filter(top => top !== undefined);
  const found = [...tops, ...declared].map(workload).filter(each => each !== undefined);
  const daemons = declared.filter(each => kindOf(each) === "DaemonSet");
  const strangers = owners.filter(({ top }) => top === undefined || workload(top) === undefined);
  return {
    workloads: [...new Map(found.map(each => [workloadText(each), each])).values()],
    pods: using,
    strangers: [
      ...strangers.map(({ pod, owner }) => ({ pod, owner })),
      ...daemons
        .filter(each => !strangers.some(({ owner }) => owner === `DaemonSet ${placeOfObject(each).name}`))
        .map(each => ({ pod: "", owner: `DaemonSet ${placeOfObject(each).name}` })),
    ],
  };
}

/** The uppermost workload of a pod, and the kind and name of its owner. */
function ownerOf(
  pod: Mapping,
  workloads: readonly Mapping[],
): { readonly top: Mapping | undefined; readonly owner: string | undefined } {
  let top: Mapping | undefined;
  let owner = controllerOf(pod);
  const name = owner && `${String(owner["kind"])} ${String(owner["name"])}`;
  for (let depth = 0; owner !== undefined && depth < 3; depth++) {
    const { kind, name: called } = owner;
    const found = workloads.find(each => kindOf(each) === kind && placeOfObject(each).name === called);
    if (found === undefined) break;
    top = found;
    owner = controllerOf(found);
  }
  return { top, owner: name };
}

/** Claims that are stopped and started together, because a workload uses several of them. */
export function groupsOf<T extends ClaimName>(
  claims: readonly T[],
  users: (claim: T) => Users,
): readonly (readonly T[])[] {
  const groups: { claims: T[]; keys: Set<string> }[] = [];
  for (const claim of claims) {
    const keys = new Set([
      claimText(claim),
      ...users(claim).workloads.map(each => `${each.namespace}/${workloadText(each)}`),
    ]);
    const joined = groups.filter(group => [...group.keys].some(key => keys.has(key)));
    for (const group of joined) groups.splice(groups.indexOf(group), 1);
    groups.push({
      claims: [...joined.flatMap(group => group.claims), claim],
      keys: new Set([...joined.flatMap(group => [...group.keys]), ...keys]),
    });
  }
  return groups.map(group => group.claims);
}
