import { isMapping, type Mapping } from "../schema/mapping.ts";
import { nearest } from "../schema/nearest.ts";
import { sections } from "./facts.ts";
import { kindNamed, type ObjectKind, objectKind } from "./object-kinds.ts";

/** What a YAML document is, judged by its keys. */
export type DocumentKind = "main" | "connection" | ObjectKind | "helm" | "other";

/** The kind of a document. Something with a section that only connection files have is one, even without `driver`. */
export function kindOf(value: unknown): DocumentKind {
  if (!isMapping(value)) return "other";
  const object = objectKind(value);
  if (typeof value["kind"] === "string" && (object !== undefined || value["apiVersion"] !== undefined))
    return object ?? "other";
  if (isHelm(value) || helmBelow(value) !== undefined) return "helm";
  const { driver, proxy } = value;
  // A connection whose driver is wrong; a main file has a "proxy:" block.
  if (driver === "proxy" && proxy === undefined && hasSection(value)) return "connection";
  if (driver === "proxy" || (driver === undefined && isMapping(proxy) && "configFolder" in proxy)) return "main";
  if (typeof driver === "string") return "connection";
  const mistyped = nearest("driver", Object.keys(value)) !== undefined;
  return mistyped || hasSection(value) ? "connection" : "other";
}

/** Whether there is a section that only connection files have; other programs have a "driver" too. */
export const hasSection = (value: unknown): boolean =>
  isMapping(value) && Object.keys(value).some(key => sections.has(key));

const isHelm = (value: Mapping): boolean =>
  isMapping(value["csiDriver"]) ||
  (isMapping(value["driver"]) && ("config" in value["driver"] || "existingConfigSecret" in value["driver"]));

/** Whether csimux reads such a file itself. */
export const isConfiguration = (kind: DocumentKind): kind is "main" | "connection" =>
  kind === "main" || kind === "connection";

/** The key of an umbrella chart under which values of this chart stand. */
export const helmBelow = (value: Mapping): string | undefined =>
  isHelm(value) ? undefined : Object.keys(value).find(key => isHelm(mappingOf(value[key])));

const mappingOf = (value: unknown): Mapping => (isMapping(value) ? value : {});

/** A guess for a document that cannot be parsed. */
export function kindOfText(text: string): DocumentKind {
  if (/^["']?apiVersion["']?:/m.test(text)) {
    const kind = /^["']?kind["']?:\s*["']?(\w+)/m.exec(text)?.[1] ?? "";
    return kindNamed(kind) ?? "other";
  }
  if (/^["']?driver["']?\s*:/m.test(text)) return "connection";
  return [...text.matchAll(/^([\w-]+)\s*:/gm)].some(([, key = ""]) => sections.has(key)) ? "connection" : "other";
}
