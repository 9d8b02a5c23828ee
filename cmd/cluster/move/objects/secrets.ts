import { MoveRefusal } from "../refusal.ts";
import type { ClaimName } from "./objects.ts";
import { isNamespace, isObjectName } from "./objects.ts";

/** What the templates of a class may name. */
export interface SecretValues {
  readonly pv: string;
  readonly claim: ClaimName;
  readonly annotations: Readonly<Record<string, string>>;
}

interface SecretReference {
  readonly name: string;
  readonly namespace: string;
}

type Parameters = Readonly<Record<string, string>>;

const prefix = "csi.storage.k8s.io/";

/** The fields of a PersistentVolume, with the class's keys: the present one, and the one before Kubernetes 1.13 (external-provisioner 6.3, controller.go). */
const fields = [
  ["controllerPublishSecretRef", "controller-publish", "csiControllerPublish"],
  ["nodeStageSecretRef", "node-stage", "csiNodeStage"],
  ["nodePublishSecretRef", "node-publish", "csiNodePublish"],
  ["controllerExpandSecretRef", "controller-expand", undefined],
  ["nodeExpandSecretRef", "node-expand", undefined],
] as const;

/** The secret references of a new PersistentVolume. Throws MoveRefusal for a template that cannot be resolved. */
export const secretReferences = (
  parameters: Parameters,
  values: SecretValues,
): Readonly<Record<string, SecretReference>> =>
  Object.fromEntries(
    fields.flatMap(([field, key, before]) => {
      const reference = referenceOf(parameters, key, before, values);
      return reference ? [[field, reference] as const] : [];
    }),
  );

/** The annotations from which the provisioner and the resizer take the secrets of later calls. */
export function secretAnnotations(parameters: Parameters, values: SecretValues): Readonly<Record<string, string>> {
  const deletion = referenceOf(parameters, "provisioner", "csiProvisioner", values);
  const modify = referenceOf(parameters, "controller-modify", undefined, values);
  return {
    "volume.kubernetes.io/provisioner-deletion-secret-name": deletion?.name ?? "",
    "volume.kubernetes.io/provisioner-deletion-secret-namespace": deletion?.namespace ?? "",
    ...(modify && {
      "volume.kubernetes.io/controller-modify-secret-name": modify.name,
      "volume.kubernetes.io/controller-modify-secret-namespace": modify.namespace,
    }),
  };
}

/** The parameters that CreateVolume gets: without the ones for sidecars, and with the names that --extra-create-metadata adds. */
export const createParameters = (
  parameters: Parameters,
  { pv, claim }: Omit<SecretValues, "annotations">,
): Parameters => ({
  ...Object.fromEntries(Object.entries(parameters).filter(([key]) => !key.startsWith(prefix))),
  [`${prefix}pvc/name`]: claim.name,
  [`${prefix}pvc/namespace`]: claim.namespace,
  [`${prefix}pv/name`]: pv,
});

function referenceOf(
  parameters: Parameters,
  key: string,
  before: string | undefined,
  values: SecretValues,
): SecretReference | undefined {
  const own = [`${prefix}${key}-secret-`, "name", "namespace"] as const;
  const old = [`${before}Secret`, "Name", "Namespace"] as const;
  const shared = [`${prefix}secret-`, "name", "namespace"] as const;
  for (const [head, name, namespace] of [own, ...(before === undefined ? [] : [old]), shared]) {
    const found = { name: parameters[`${head}${name}`], namespace: parameters[`${head}${namespace}`] };
    if (found.name === undefined && found.namespace === undefined) continue;
    return resolved(found.name ?? "", found.namespace ?? "", `${head}${name}`, values);
  }
  return undefined;
}

function resolved(
  name: string,
  namespace: string,
  key: string,
  { pv, claim, annotations }: SecretValues,
): SecretReference {
  // The namespace may not depend on what the owner of a claim can write (external-provisioner 6.3, getSecretReference).
  const safe = { "pv.name": pv, "pvc.namespace": claim.namespace };
  const own = Object.entries(annotations).map(([each, value]) => [`pvc.annotations['${each}']`, value] as const);
  const found = {
    name: expanded(name, { ...Object.fromEntries(own), ...safe, "pvc.name": claim.name }),
    namespace: expanded(namespace, safe),
  };
  if (
    found.name !== undefined &&
    found.namespace !== undefined &&
    isObjectName(found.name) &&
    isNamespace(found.namespace)
  )
    return { name: found.name, namespace: found.namespace };
  throw new MoveRefusal(
    `the class names no secret with ${key} for claim ${claim.namespace}/${claim.name}: "${name}" in "${namespace}"`,
  );
}

/** A template with its values; undefined if it names something else. */
function expanded(template: string, values: Readonly<Record<string, string>>): string | undefined {
  let isKnown = true;
  const text = template.replace(/\$\{([^}]*)\}|\$/g, (_, key: string | undefined) => {
    const value = key !== undefined && Object.hasOwn(values, key) ? values[key] : undefined;
    if (value === undefined) isKnown = false;
    return value ?? "";
  });
  return isKnown ? text : undefined;
}
