import { isMapping, type Mapping } from "../core/mapping.ts";
import { isNodeName } from "../core/name.ts";
import { releaseValues } from "../lint/gitops.ts";
import { isEncrypted } from "../lint/input.ts";
import { helmBelow, kindOf } from "../lint/kinds.ts";
import { at, listAt, mappingAt, textAt } from "../lint/lint-input.ts";
import { manifestBudget } from "../yaml/budget.ts";
import { parseYaml, parseYamlDocuments } from "../yaml/parse.ts";

/** One Helm release of democratic-csi, as described by its values. */
export interface OldDeployment {
  /** The file of the values, for messages. */
  readonly file: string;
  /** The release's name and namespace; undefined if not given. */
  readonly release: Release | undefined;
  /** `csiDriver.name`. */
  readonly name: string;
  /** democratic-csi's configuration: `driver.config`, or the content of the Secret in `driver.existingConfigSecret`. */
  readonly config: Mapping;
  readonly values: Mapping;
  /** The object of Flux or Argo CD that contained the values, by kind and name: it installs the release again. */
  readonly owner?: { readonly kind: string; readonly name: string };
}

/** A Helm release. */
export interface Release {
  readonly name: string;
  readonly namespace: string;
}

/** Values that cannot be taken over, and why. */
export interface Refusal {
  readonly file: string;
  readonly why: string;
}

/** The Secret key from which the chart and democratic-csi read the configuration. */
const configKey = "driver-config-file.yaml";

/** The entries of each Secret in the manifests, by the Secret's name; "encrypted" for one that sops has encrypted. */
export type ReleaseSecrets = ReadonlyMap<string, ReadonlyMap<string, string> | "encrypted">;

const sealed = 'is encrypted by sops: decrypt it first ("sops -d")';

/** Reads the ReleaseSecrets in manifests; other objects are skipped. */
export function readSecrets(texts: readonly { readonly file: string; readonly text: string }[]): ReleaseSecrets {
  const found = new Map<string, ReadonlyMap<string, string> | "encrypted">();
  for (const { file, text } of texts)
    for (const secret of parseYamlDocuments(file, text, manifestBudget).flatMap(({ value }) => objectsIn(value))) {
      const name = textAt(secret, "metadata", "name");
      if (secret["kind"] === "Secret" && name !== undefined)
        found.set(name, isEncrypted({ value: secret }) ? "encrypted" : entriesOf(secret));
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
  secrets: ReleaseSecrets,
): OldDeployment | Refusal {
  const refuse = (why: string): Refusal => ({ file, why });
  const { value: whole, diagnostics } = parseYaml(file, text);
  const [broken] = diagnostics.filter(({ blocks }) => blocks);
  if (broken) return refuse(`line ${broken.line}: ${broken.message}`);
  if (!isMapping(whole)) return refuse("these are not the values of a chart: nothing is set");
  if (isEncrypted({ value: whole })) return refuse(`the file ${sealed}`);
  const value = valuesIn(whole);
  const name = textAt(value, "csiDriver", "name");
  if (name === undefined)
    return refuse('"csiDriver.name" is missing, so the volumes of this driver cannot be identified');
  // Up to 63 characters (CSI GetPluginInfo), and the name of a CSIDriver object.
  if (name.length > 63 || !isNodeName(name.toLowerCase()))
    return refuse(`"csiDriver.name" is ${JSON.stringify(name)}, which no driver can have as its name; correct it`);
  if (!/^\/[\w./-]*$/.test(kubeletOf(value)))
    return refuse('"node.kubeletHostPath" must be an absolute path of letters, digits, ".", "_" and "-"; correct it');
  const config = configOf(value, secrets);
  if (typeof config === "string") return refuse(config);
  const owner = { kind: textAt(whole, "kind") ?? "", name: textAt(whole, "metadata", "name") ?? "" };
  return { file, release, name, config, values: value, ...(releaseValues(whole).length > 0 && { owner }) };
}

/** The values of democratic-csi's chart in a file: those of a subchart, or in an object of Flux or Argo CD; otherwise the whole. */
function valuesIn(whole: Mapping): Mapping {
  const inside = releaseValues(whole).map(({ value }) => (isMapping(value) ? value : parseYaml("values", value).value));
  const all = [...inside, whole].filter(isMapping);
  const values = all.find(each => kindOf(each) === "helm") ?? whole;
  const key = helmBelow(values);
  return key === undefined ? values : mappingAt(values, key);
}

/** The configuration of the driver, or why it is missing. */
function configOf(values: Mapping, secrets: ReleaseSecrets): Mapping | string {
  const secret = textAt(values, "driver", "existingConfigSecret");
  if (secret === undefined) {
    const config = mappingAt(values, "driver", "config");
    return textAt(config, "driver") === undefined ? '"driver.config" does not name a driver' : config;
  }
  const entries = secrets.get(secret);
  if (entries === "encrypted") return `the Secret "${secret}" ${sealed}`;
  const text = entries?.get(configKey);
  if (text === undefined)
    return `the configuration is in the Secret "${secret}": get it with "kubectl get secret ${secret} -o yaml > secret.yaml" in its namespace, and add --secret secret.yaml`;
  const { value, diagnostics } = parseYaml(configKey, text);
  const [broken] = diagnostics.filter(({ blocks }) => blocks);
  if (broken) return `${configKey} in the Secret "${secret}", line ${broken.line}: ${broken.message}`;
  return isMapping(value) && textAt(value, "driver") !== undefined
    ? value
    : `${configKey} in the Secret "${secret}" does not name a driver`;
}

/** Whether values switch off a part of the chart; parts that are not mentioned are on. */
export const isOff = (values: Mapping, ...path: readonly string[]): boolean => at(values, ...path) === false;

/**
 * The name that the chart gives its objects (templates/_helpers.tpl, "democratic-csi.fullname"): part of the names of
 * the classes' ReleaseSecrets, which PersistentVolumes reference.
 */
export function fullName(values: Mapping, release: Release): string {
  const given = textAt(values, "fullnameOverride");
  if (given) return cut(given);
  const chart = textAt(values, "nameOverride") || "democratic-csi";
  return cut(release.name.includes(chart) ? release.name : `${release.name}-${chart}`);
}

/** At most 63 characters and no dash at the end, as in the templates: `trunc 63 | trimSuffix "-"`. */
export const cut = (name: string): string => name.slice(0, 63).replace(/-$/, "");

/** The kubelet folder set in the values. */
export const kubeletOf = (values: Mapping): string =>
  String(at(values, "node", "kubeletHostPath") ?? "/var/lib/kubelet");
