import { isMapping, type Mapping } from "../core/mapping.ts";
import type { Path } from "../schema/finding.ts";
import { at, listAt, type ManifestObject, textAt } from "./lint-input.ts";

/** Values of a chart in a HelmRelease of Flux, an Application of Argo CD or a HelmChart of k3s: a mapping, or YAML as text. */
export interface ReleaseValues {
  /** Where they are in the object. */
  readonly path: Path;
  readonly value: Mapping | string;
}

/**
 * The values in an object of Flux (HelmRelease, `spec.values`), Argo CD (Application, `spec.source` and `spec.sources[]` with
 * `helm.valuesObject`, or `helm.values` as text) or k3s and RKE2 (HelmChart, `spec.valuesContent` as text). Empty for any other object.
 */
export function releaseValues(object: Mapping): readonly ReleaseValues[] {
  const sources = listAt(object, "spec", "sources").map((_, index): Path => ["spec", "sources", index]);
  const helm = [["spec", "source"], ...sources].map((source): Path => [...source, "helm"]);
  const argo = helm.flatMap(path => [
    [...path, "valuesObject"],
    [...path, "values"],
  ]);
  const { kind } = object;
  const paths: readonly Path[] =
    kind === "HelmRelease" ? [["spec", "values"]] : kind === "HelmChart" ? [["spec", "valuesContent"]] : argo;
  return paths.flatMap(path => {
    const value = at(object, ...path);
    return isMapping(value) || (typeof value === "string" && value !== "") ? [{ path, value }] : [];
  });
}

/** What values come from elsewhere into an object, in words: `spec.valuesFrom` (Flux), `spec.valuesSecrets` (k3s), and `helm.valueFiles` (Argo CD). */
export function valuesElsewhere({ value: object }: ManifestObject): readonly string[] {
  const from = [...listAt(object, "spec", "valuesFrom"), ...listAt(object, "spec", "valuesSecrets")].map(
    each => `${textAt(each, "kind") ?? "Secret"} "${textAt(each, "name") ?? ""}" with values`,
  );
  const sources = [at(object, "spec", "source"), ...listAt(object, "spec", "sources")];
  const files = sources.flatMap(each => listAt(each, "helm", "valueFiles")).map(each => `the file of values ${each}`);
  return [...from, ...files];
}

/** Whether the object installs a chart of this name. */
export const installs = (object: Mapping, charts: readonly string[]): boolean =>
  [
    object["spec"],
    at(object, "spec", "chart", "spec"),
    at(object, "spec", "source"),
    ...listAt(object, "spec", "sources"),
  ].some(each => charts.includes(textAt(each, "chart") ?? ""));
