import { mkfsOptionsKey } from "../core/mkfs-options.ts";
import { keyPrefix, nameTemplateKey } from "../core/name.ts";
import { meant, nearest } from "../schema/nearest.ts";
import type { Context } from "./driver.ts";
import { modules } from "./index.ts";
import { adoptKey, deleteStrategyKey } from "./tenure.ts";

/** A StorageClass, or a class of snapshots or group snapshots. */
export type ClassKind = "storage" | "snapshot";

/** Every parameter that any driver reads from classes of this kind. */
export const driverParameters = (kind: "volume" | "snapshot"): readonly string[] => [
  ...new Set(modules.flatMap(({ facts }) => facts.parameters[kind])),
];

/** The parameters that csimux and its drivers read from classes. */
const known: Readonly<Record<ClassKind, readonly string[]>> = {
  storage: ["connection", "fsType", mkfsOptionsKey, nameTemplateKey, adoptKey, deleteStrategyKey].concat(
    driverParameters("volume"),
  ),
  snapshot: ["connection", ...driverParameters("snapshot")],
};

/** Before the parameters that sidecars read or add. */
const sidecarPrefix = "csi.storage.k8s.io/";

/** A key without its keyPrefix, and without the instance or driver after that. */
export const plainKey = (key: string): string =>
  key.startsWith(keyPrefix) ? key.slice(keyPrefix.length).replace(/^[^/]+\//, "") : key;

/** Whether csimux reads the parameter; `more`: or a sidecar. external-provisioner also takes "fstype" in any case (controller.go, Provision). */
export const isKnownParameter = (kind: ClassKind, plain: string, more: readonly string[] = []): boolean =>
  known[kind].includes(plain) || more.includes(plain) || (kind === "storage" && plain.toLowerCase() === "fstype");

/** The parameter that an unknown one is probably a misspelling of. */
export const intendedParameter = (kind: ClassKind, plain: string, more: readonly string[] = []): string | undefined =>
  nearest(plain, [...known[kind], ...more]);

/** Whether a placeholder in one of the texts may read the parameter. */
export const isInTemplate = (plain: string, texts: readonly string[]): boolean =>
  texts.some(text => [...text.matchAll(/\{\{[^{}]*\}\}/g)].some(([tag]) => tag.includes(plain)));

/**
 * Why a class cannot have these parameters: one is probably misspelt, and what it asks for would not happen. Others may be there for templates;
 * `texts` are the files that may contain them. Sidecars check their own.
 */
export function misspeltParameter(kind: ClassKind, parameters: Context, texts: readonly string[]): string | undefined {
  for (const key of Object.keys(parameters)) {
    const plain = plainKey(key);
    if (key.startsWith(sidecarPrefix) || isKnownParameter(kind, plain)) continue;
    const near = intendedParameter(kind, plain);
    if (near === undefined || isInTemplate(plain, [...texts, parameters[nameTemplateKey] ?? ""])) continue;
    return `the class has the unknown parameter "${key}": ${meant(near)}`;
  }
  return undefined;
}
