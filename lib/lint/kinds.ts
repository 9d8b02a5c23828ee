import { isMapping, type Mapping } from "../schema/mapping.ts";
import { nearest } from "../schema/nearest.ts";
import { sections } from "./facts.ts";

/** What a YAML document is, judged by its keys. */
export type Kind = "main" | "connection" | "secret" | "storage-class" | "snapshot-class" | "list" | "helm" | "other";

const objects: Readonly<Record<string, Kind>> = {
  Secret: "secret",
  StorageClass: "storage-class",
  VolumeSnapshotClass: "snapshot-class",
  List: "list",
  SecretList: "list",
  StorageClassList: "list",
  VolumeSnapshotClassList: "list",
};

/** The kind of a document. Something with a section that only connection files have is one, even without `driver`. */
export function kindOf(value: unknown): Kind {
  if (!isMapping(value)) return "other";
  if (typeof value["kind"] === "string" && value["apiVersion"] !== undefined) return objects[value["kind"]] ?? "other";
  if (isHelm(value)) return "helm";
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
export const isConfiguration = (kind: Kind): kind is "main" | "connection" => kind === "main" || kind === "connection";

/** A guess for a document that cannot be parsed. */
export function kindOfText(text: string): Kind {
  if (/^["']?apiVersion["']?:/m.test(text)) {
    const kind = /^["']?kind["']?:\s*["']?(\w+)/m.exec(text)?.[1] ?? "";
    return objects[kind] ?? "other";
  }
  if (/^["']?driver["']?\s*:/m.test(text)) return "connection";
  return [...text.matchAll(/^([\w-]+)\s*:/gm)].some(([, key = ""]) => sections.has(key)) ? "connection" : "other";
}
