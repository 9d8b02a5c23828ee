import { isMapping, type Mapping } from "../../../../lib/core/mapping.ts";
import { at, listAt, mappingAt, textAt } from "../../../../lib/lint/lint-input.ts";

/** A claim by its place in the cluster. */
export interface ClaimName {
  readonly namespace: string;
  readonly name: string;
}

/** A claim as namespace/name. */
export const claimText = ({ namespace, name }: ClaimName): string => `${namespace}/${name}`;

/** The name and namespace of an object; empty texts where there are none. */
export const placeOfObject = (object: unknown): ClaimName => ({
  namespace: textAt(object, "metadata", "namespace") ?? "",
  name: textAt(object, "metadata", "name") ?? "",
});

/** Whether a text can be the name of a claim or volume (RFC 1123 subdomain; apimachinery 0.36, pkg/util/validation). */
export const isObjectName = (text: string): boolean =>
  text.length <= 253 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(text);

/** Whether a text can be the name of a namespace (RFC 1123 label; apimachinery 0.36, pkg/util/validation). */
export const isNamespace = (text: string): boolean => text.length <= 63 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(text);

/** The texts of a mapping; other values are left out. */
export const textsAt = (object: unknown, ...path: readonly string[]): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(mappingAt(object, ...path)).flatMap(([key, value]) =>
      typeof value === "string" ? [[key, value] as const] : [],
    ),
  );

/** The list of mappings at a path. */
export const mappingsAt = (object: unknown, ...path: readonly string[]): readonly Mapping[] =>
  listAt(object, ...path).filter(isMapping);

/** A whole number of an object, such as the replicas of a workload. */
export const numberAt = (object: unknown, ...path: readonly string[]): number | undefined => {
  const value = at(object, ...path);
  return typeof value === "number" ? value : undefined;
};

/** The class of a claim or volume: the old annotation counts before the field (component-helpers 0.36, storage/volume/helpers.go). */
export const classOf = (object: unknown): string =>
  textAt(object, "metadata", "annotations", "volume.beta.kubernetes.io/storage-class") ??
  textAt(object, "spec", "storageClassName") ??
  "";

/** A UID that no claim has, so that Kubernetes takes the claim for deleted (RFC 9562, "Nil UUID"). */
export const noClaim = "00000000-0000-0000-0000-000000000000";

/** The claim that a volume is reserved for or bound to. */
export function claimOfVolume(volume: unknown): (ClaimName & { readonly uid: string }) | undefined {
  const { name, namespace, uid } = textsAt(volume, "spec", "claimRef");
  return name === undefined || namespace === undefined ? undefined : { name, namespace, uid: uid ?? "" };
}

/** The names of the claims that a pod, or the template of one, uses. */
export const claimsInPod = (spec: unknown): readonly string[] =>
  mappingsAt(spec, "volumes").flatMap(each => textAt(each, "persistentVolumeClaim", "claimName") ?? []);

/** The controller in the owner references of an object. */
export const controllerOf = (object: unknown): Mapping | undefined =>
  mappingsAt(object, "metadata", "ownerReferences").find(each => each["controller"] === true);

const units: Readonly<Record<string, bigint>> = {
  "": 1n,
  ...Object.fromEntries(["k", "M", "G", "T", "P", "E"].map((unit, index) => [unit, 1000n ** BigInt(index + 1)])),
  ...Object.fromEntries(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].map((unit, index) => [unit, 1024n ** BigInt(index + 1)])),
};

/** The bytes of a quantity such as "20Gi", "1.5G" or "1e9", rounded up (apimachinery 0.36, pkg/api/resource); undefined if it is none. */
export function quantityBytes(text: unknown): bigint | undefined {
  const [, whole = "", fraction = "", exponent, unit = ""] =
    /^([0-9]+)(?:\.([0-9]*))?(?:[eE]([0-9]{1,2})|([kMGTPE]i?|Ki))?$/.exec(String(text)) ?? [];
  const factor = exponent === undefined ? units[unit] : 10n ** BigInt(exponent);
  if (whole === "" || factor === undefined || fraction.length > 18) return undefined;
  const scale = 10n ** BigInt(fraction.length);
  return (BigInt(whole + fraction) * factor + scale - 1n) / scale;
}

/** A number of bytes as a quantity in its largest whole unit (external-provisioner 6.3, controller.go, bytesToQuantity). */
export function quantityText(bytes: bigint): string {
  const fitting = Object.entries(units).filter(
    ([unit, factor]) => unit.endsWith("i") && bytes > 0n && bytes % factor === 0n,
  );
  const [unit = "", factor = 1n] = fitting.at(-1) ?? [];
  return `${bytes / factor}${unit}`;
}

/** The texts of a list. */
export const listOfTexts = (object: unknown, ...path: readonly string[]): readonly string[] =>
  listAt(object, ...path).map(String);

/** Whether a claim is used as a raw block device. */
export const isBlock = (claim: unknown): boolean => textAt(claim, "spec", "volumeMode") === "Block";

/** The access modes of a claim. */
export const modesOf = (claim: unknown): readonly string[] => listAt(claim, "spec", "accessModes").map(String);
