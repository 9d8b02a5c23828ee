import { createHash } from "node:crypto";
import { CsiError } from "./errors.ts";
import { rendered, templateFault } from "./template.ts";

const plain = /^[A-Za-z0-9][A-Za-z0-9_-]*$/;

/** Whether a text is a plain name of at most `maxBytes` bytes, as backendName() makes them: never a path, an option or a hidden file. */
export const isPlainName = (text: string, maxBytes = 128): boolean => plain.test(text) && text.length <= maxBytes;

const digestOf = (name: string): string => createHash("sha256").update(name).digest("hex").slice(0, 20);

/**
 * The name of an object on a storage system for a name chosen by the caller: the same text if it is plain and short
 * enough, otherwise its readable head, a dash and 20 hex digits of its SHA-256. The same input always gives the same
 * output. Plain: letters, digits, "_" and "-", starting with a letter or digit. `maxBytes` must be at least 24.
 */
export function backendName(name: string, maxBytes: number): string {
  if (isPlainName(name, maxBytes)) return name;
  const digest = digestOf(name);
  const head = name
    .replace(/[^A-Za-z0-9_-]+/g, "-")
    .replace(/^[-_]+/, "")
    .slice(0, maxBytes - 21);
  return head === "" ? digest : `${head}-${digest}`;
}

/**
 * Whether a text can be a node name: a DNS subdomain (Kubernetes "Object Names and IDs"; RFC 1123), so never a path.
 */
export const isNodeName = (text: string): boolean => /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/.test(text);

/**
 * Before the keys of parameters and secrets that apply to one instance or driver (`democratic-csi.org/<instance or driver>/<key>`), or to all
 * (`democratic-csi.org/<key>`).
 */
export const keyPrefix = "democratic-csi.org/";

/** The class parameter with a template for the names of datasets, disks and folders. */
export const nameTemplateKey = "nameTemplate";

/** The most characters of the readable part: with a digest and the connection's name, a handle still fits into the 128 bytes of CSI. */
const longest = 60;

/** Why a class cannot have this template, or undefined. */
export const nameTemplateRefusal = (template: string): string | undefined => {
  const fault = templateFault(template);
  return fault === undefined ? undefined : `the parameter ${nameTemplateKey}: "${template.slice(0, 200)}" ${fault}`;
};

/**
 * The name that a volume has for its driver: that of the request, or what the class' `nameTemplate` makes of the request's parameters, with
 * 20 hex digits of the request's name. So two claims never share a volume, also a claim that is created again, and a repeated request, whose
 * class cannot have changed, finds its volume. Throws "invalid-argument" for a template that is invalid, or that gives an empty text.
 */
export function volumeName(name: string, parameters: Readonly<Record<string, string>>): string {
  const template = parameters[nameTemplateKey];
  if (template === undefined || template === "") return name;
  const refusal = nameTemplateRefusal(template);
  if (refusal !== undefined) throw new CsiError("invalid-argument", refusal);
  const readable = rendered(template, { name, parameters })
    .replace(/[^A-Za-z0-9_-]+/g, "-")
    .replace(/^[-_]+/, "")
    .slice(0, longest)
    .replace(/-+$/, "");
  if (readable !== "") return `${readable}-${digestOf(name)}`;
  const text = `the parameter ${nameTemplateKey} of the class gives volume "${name}" an empty name; names of claims need external-provisioner with --extra-create-metadata`;
  throw new CsiError("invalid-argument", text);
}
