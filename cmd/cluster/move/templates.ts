import { quoted } from "../../../lib/io/script.ts";
import type { ClusterObjects, Moving } from "./cluster-objects.ts";
import { claimText } from "./objects/objects.ts";
import { templateOf, usersOf } from "./users.ts";
import { noted } from "./work.ts";

/**
 * What a person must do so that a StatefulSet makes its next claims in the new class. Its templates cannot be changed
 * (Kubernetes 1.36, pkg/apis/apps/validation, ValidateStatefulSetUpdate), so it is made again without its pods noticing.
 */
export function setAdvice(objects: ClusterObjects, claims: readonly Moving[]): readonly string[] {
  const lines = new Map<string, string>();
  for (const claim of claims)
    for (const { kind, name, namespace, object } of usersOf(objects, claim).workloads) {
      const template = kind === "StatefulSet" ? templateOf(object, claim.name) : undefined;
      if (template === undefined) continue;
      const set = claimText({ namespace, name });
      lines.set(
        `${set}/${template}`,
        `StatefulSet ${set}: later ordinals still get the old class. Set storageClassName ${noted(claim).note.toClass} in the template ${template} of its manifest, then: kubectl delete statefulset ${quoted(name)} -n ${quoted(namespace)} --cascade=orphan && kubectl apply -f <manifest>`,
      );
    }
  return [...lines.values()];
}
