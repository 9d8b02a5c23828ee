import type { Path } from "../schema/finding.ts";
import { isMapping, type Mapping } from "../schema/mapping.ts";
import { at, listAt, type ManifestObject, textAt } from "./lint-input.ts";

/** Values of a chart in a HelmRelease of Flux or an Application of Argo CD: a mapping, or YAML as text. */
export interface ReleaseValues {
  /** Where they are in the object. */
  readonly path: Path;
  readonly value: Mapping | string;
}

/**
 * The values in an object of Flux (HelmRelease, `spec.values`) or Argo CD (Application, `spec.source` and `spec.sources[]` with
 * `helm.valuesObject`, or `helm.values` as text). Empty for any other object.
 */
export function releaseValues(object: Mapping): readonly ReleaseValues[] {
  const sources = listAt(object, "spec", "sources").map((_, index): Path => ["spec", "sources", index]);
  const helm = [["spec", "source"], ...sources].map((source): Path => [...source, "helm"]);
  const paths: readonly Path[] = isRelease(object)
    ? [["spec", "values"]]
    : helm.flatMap(path => [
        [...path, "valuesObject"],
        [...path, "values"],
      ]);
  return paths.flatMap(path => {
    const value = at(object, ...path);
    return isMapping(value) || (typeof value === "string" && value !== "") ? [{ path, value }] : [];
  });
}

const isRelease = (object: Mapping): boolean => object["kind"] === "HelmRelease";

/** What values come from elsewhere into an object of Flux or Argo CD, in words: `spec.valuesFrom`, and `helm.valueFiles`. */
export function valuesElsewhere({ value: object }: ManifestObject): readonly string[] {
  const from = listAt(object, "spec", "valuesFrom").map(
    each => `${textAt(each, "kind") ?? "Secret"} "${textAt(each, "name") ?? ""}" with values`,
  );
  const sources = [at(object, "spec", "source"), ...listAt(object, "spec", "sources")];
  const files = sources.flatMap(each => listAt(each, "helm", "valueFiles")).map(each => `the file of values ${each}`);
  return [...from, ...files];
}

/** Whether the object installs a chart of this name. */
export const installs = (object: Mapping, charts: readonly string[]): boolean =>
  [at(object, "spec", "chart", "spec"), at(object, "spec", "source"), ...listAt(object, "spec", "sources")].some(each =>
    charts.includes(textAt(each, "chart") ?? ""),
  );
