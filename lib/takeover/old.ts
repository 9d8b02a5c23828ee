import { at, listAt, mappingAt, textAt } from "../lint/world.ts";
import { isMapping, type Mapping } from "../schema/mapping.ts";
import { manifestBudget } from "../yaml/budget.ts";
import { parseYaml, parseYamlDocuments } from "../yaml/parse.ts";

/** One Helm release of democratic-csi, as its values say. */
export interface OldDeployment {
  /** The file of the values, for messages. */
  readonly file: string;
  /** The name of the release and its namespace; undefined when nobody said it. */
  readonly release: Release | undefined;
  /** `csiDriver.name`. */
  readonly name: string;
  /** What democratic-csi read: `driver.config`, or what the Secret of `driver.existingConfigSecret` holds. */
  readonly config: Mapping;
  readonly values: Mapping;
}

/** A Helm release. */
export interface Release {
  readonly name: string;
  readonly namespace: string;
}

/** Values that cannot be taken over as they are, and why. */
export interface Refusal {
  readonly file: string;
  readonly why: string;
}

/** The key that the chart and democratic-csi read the configuration from. */
const configKey = "driver-config-file.yaml";

/** The text of each entry of a Secret's manifests, by the Secret's name. */
export type Secrets = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** Reads manifests, of which the Secrets count. What is none is passed over. */
export function readSecrets(texts: readonly { readonly file: string; readonly text: string }[]): Secrets {
  const found = new Map<string, ReadonlyMap<string, string>>();
  for (const { file, text } of texts)
    for (const secret of parseYamlDocuments(file, text, manifestBudget).flatMap(({ value }) => objectsIn(value))) {
      const name = textAt(secret, "metadata", "name");
      if (secret["kind"] === "Secret" && name !== undefined) found.set(name, entriesOf(secret));
    }
  return found;
}

const objectsIn = (value: unknown): readonly Mapping[] => {
  if (!isMapping(value)) return [];
  return value["kind"] === "List" || value["kind"] === "SecretList"
    ? listAt(value, "items").filter(isMapping)
    : [value];
};

const entriesOf = (secret: Mapping): ReadonlyMap<string, string> =>
  new Map([
    ...Object.entries(mappingAt(secret, "data")).map(
      ([key, value]) => [key, Buffer.from(String(value), "base64").toString("utf8")] as const,
    ),
    ...Object.entries(mappingAt(secret, "stringData")).map(([key, value]) => [key, String(value)] as const),
  ]);

/** Reads the values of one release. */
export function readOld(
  file: string,
  text: string,
  release: Release | undefined,
  secrets: Secrets,
): OldDeployment | Refusal {
  const refuse = (why: string): Refusal => ({ file, why });
  const { value, diagnostics } = parseYaml(file, text);
  const [broken] = diagnostics.filter(({ blocks }) => blocks);
  if (broken) return refuse(`line ${broken.line}: ${broken.message}`);
  if (!isMapping(value)) return refuse("these are no values of a chart: nothing is set");
  const name = textAt(value, "csiDriver", "name");
  if (name === undefined) return refuse('there is no "csiDriver.name", so nobody knows which volumes are meant');
  const config = configOf(value, secrets);
  return typeof config === "string" ? refuse(config) : { file, release, name, config, values: value };
}

/** The configuration of the driver, or why there is none. */
function configOf(values: Mapping, secrets: Secrets): Mapping | string {
  const secret = textAt(values, "driver", "existingConfigSecret");
  if (secret === undefined) {
    const config = mappingAt(values, "driver", "config");
    return textAt(config, "driver") === undefined ? '"driver.config" names no driver' : config;
  }
  const text = secrets.get(secret)?.get(configKey);
  if (text === undefined)
    return `the configuration stands in the Secret "${secret}": get it with "kubectl get secret ${secret} -o yaml > secret.yaml" in its namespace, and add --secret secret.yaml`;
  const { value, diagnostics } = parseYaml(configKey, text);
  const [broken] = diagnostics.filter(({ blocks }) => blocks);
  if (broken) return `${configKey} in the Secret "${secret}", line ${broken.line}: ${broken.message}`;
  return isMapping(value) && textAt(value, "driver") !== undefined
    ? value
    : `${configKey} in the Secret "${secret}" names no driver`;
}

/** Whether values switch a part of the chart off; what they do not mention is on. */
export const isOff = (values: Mapping, ...path: readonly string[]): boolean => at(values, ...path) === false;

/**
 * What the chart calls its objects (templates/_helpers.tpl, "democratic-csi.fullname"): the Secrets of classes bear it in their
 * names, which PersistentVolumes keep.
 */
export function fullName(values: Mapping, release: Release): string {
  const given = textAt(values, "fullnameOverride");
  if (given) return cut(given);
  const chart = textAt(values, "nameOverride") || "democratic-csi";
  return cut(release.name.includes(chart) ? release.name : `${release.name}-${chart}`);
}

/** At most 63 characters and no dash at the end, as the templates have it: `trunc 63 | trimSuffix "-"`. */
export const cut = (name: string): string => name.slice(0, 63).replace(/-$/, "");
