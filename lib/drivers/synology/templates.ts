import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Mapping } from "../../core/mapping.ts";
import { rendered } from "../../core/template.ts";
import { parseYaml } from "../../yaml/parse.ts";
import type { Context } from "../driver.ts";
import type { ConnectionIdentity } from "../module.ts";
import { parameter } from "../parameters.ts";
import { lunSnapshotTemplate, lunTemplate, targetTemplate, templateFault } from "./sections.ts";

const schemas = { lunTemplate, targetTemplate, lunSnapshotTemplate };

/** The name of a template in the connection file, of the parameter of a class, and of the key of its secret. */
export type TemplateName = keyof typeof schemas;

/** The connection and the templates in its file. */
export interface TemplateSources {
  readonly identity: ConnectionIdentity;
  readonly fixed: Readonly<Partial<Record<TemplateName, unknown>>>;
}

const otherSpellings: Readonly<Record<string, string>> = {
  dev_attributes: "dev_attribs",
  mutualUser: "mutual_user",
  mutualPassword: "mutual_password",
};

/**
 * The template for one request: the file's, overridden by the class's, overridden by the secret's. Attributes are merged by
 * name. Throws "invalid-argument" without showing a value, because there are passwords among them.
 */
export function template(
  { identity, fixed }: TemplateSources,
  name: TemplateName,
  parameters: Context,
  { secrets }: Pick<Call, "secrets">,
): Mapping {
  const texts = [parameter(parameters, identity, name), secrets[name]];
  const layers = texts.map(text => (text === undefined ? {} : parsed(identity, name, text)));
  const merged = layers.reduce<Mapping>(over, withSpelling((fixed[name] ?? {}) as Mapping));
  const fault = templateFault(schemas[name], merged);
  if (fault === undefined) return merged;
  throw refused(identity, name, fault);
}

const refused = ({ connection }: ConnectionIdentity, name: TemplateName, why: string): CsiError =>
  new CsiError("invalid-argument", `connection "${connection}": the class's ${name} cannot be used: ${why}`);

function parsed(identity: ConnectionIdentity, name: TemplateName, text: string): Mapping {
  const { value, diagnostics } = parseYaml(name, text);
  const [first] = diagnostics;
  if (value === null && first) throw refused(identity, name, `it is not YAML, line ${first.line}`);
  if (value === null || value === undefined) return {};
  if (typeof value !== "object" || Array.isArray(value)) throw refused(identity, name, "it must be a mapping");
  return withSpelling(value as Mapping);
}

const withSpelling = (fields: Mapping): Mapping =>
  Object.fromEntries(Object.entries(fields).map(([key, value]) => [otherSpellings[key] ?? key, value]));

/** One layer over another; null removes a key. */
function over(below: Mapping, above: Mapping): Mapping {
  const attributes = mergedAttributes(below["dev_attribs"], above["dev_attribs"]);
  const all = { ...below, ...above, ...(attributes !== undefined && { dev_attribs: attributes }) };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null && value !== undefined));
}

const attributeName = (each: unknown): unknown => (each as Mapping | null)?.["dev_attrib"];

function mergedAttributes(below: unknown, above: unknown): unknown {
  if (!Array.isArray(below) || !Array.isArray(above)) return above ?? below;
  const replaced = new Set(above.map(attributeName));
  const all = [...below.filter(each => !replaced.has(attributeName(each))), ...above];
  return all.filter(each => (each as Mapping | null)?.["enable"] !== null);
}

/** The parameters of a new LUN. Throws "invalid-argument" without a type, because DSM's default varies. */
export function lunFields(sources: TemplateSources, name: string, parameters: Context, call: Call): Mapping {
  const { description, ...fields } = template(sources, "lunTemplate", parameters, call);
  if (fields["type"] === undefined)
    throw refused(sources.identity, "lunTemplate", "neither the class nor the connection file sets the type");
  return { ...fields, description: rendered(String(description ?? ""), { name, parameters }) };
}

/** The parameters of a new target. Credentials enable CHAP: one pair for nodes, a second one for the target. */
export function targetFields(sources: TemplateSources, parameters: Context, call: Call): Mapping {
  const fields = template(sources, "targetTemplate", parameters, call);
  const given = fields["mutual_user"] ? 2 : fields["user"] ? 1 : 0;
  const wanted = Number(fields["auth_type"] ?? given);
  if (wanted > given) {
    const lacking = given === 0 ? "user and password" : "mutual_user and mutual_password";
    throw refused(sources.identity, "targetTemplate", `auth_type ${wanted} needs ${lacking}`);
  }
  return { ...fields, auth_type: given };
}
