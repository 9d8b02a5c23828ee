import { isMapping, type Mapping } from "../core/mapping.ts";
import { nearest } from "../schema/nearest.ts";
import { sections } from "./facts.ts";

/** The kinds of Kubernetes objects that concern csimux, by the value of `kind:`. */
const objectKinds = {
  Secret: "secret",
  ConfigMap: "config-map",
  SealedSecret: "sealed-secret",
  StorageClass: "storage-class",
  VolumeSnapshotClass: "snapshot-class",
  PersistentVolume: "persistent-volume",
  CSIDriver: "csi-driver",
  Deployment: "workload",
  DaemonSet: "workload",
  StatefulSet: "workload",
  Kustomization: "kustomization",
  HelmRelease: "release",
  Application: "release",
  HelmChart: "release",
  List: "list",
} as const;

type ObjectKind = (typeof objectKinds)[keyof typeof objectKinds];

/** The kind of a YAML document, by its keys. */
export type DocumentKind = "main" | "connection" | ObjectKind | "helm" | "chart" | "other";

const kindsByName: ReadonlyMap<string, ObjectKind> = new Map(Object.entries(objectKinds));

/** Lists are "List", or the kind of their items followed by it. */
const objectKind = (kind: string): ObjectKind | undefined =>
  kindsByName.get(kind) ?? (kindsByName.has(kind.replace(/List$/, "")) ? "list" : undefined);

/** The kind of a document. One with a section that only connection files have is a connection, even without `driver`. */
export function kindOf(value: unknown): DocumentKind {
  if (!isMapping(value)) return "other";
  const { kind, apiVersion, driver, proxy } = value;
  const object = typeof kind === "string" ? objectKind(kind) : undefined;
  if (object !== undefined || (typeof kind === "string" && apiVersion !== undefined)) return object ?? "other";
  if (isHelm(value) || helmBelow(value) !== undefined) return "helm";
  if (isChart(value) || chartBelow(value) !== undefined) return "chart";
  // A connection with a wrong driver; a main file has a "proxy:" block.
  if (driver === "proxy" && proxy === undefined && hasSection(value)) return "connection";
  if (driver === "proxy" || (driver === undefined && isMapping(proxy) && "configFolder" in proxy)) return "main";
  if (typeof driver === "string") return "connection";
  const mistyped = nearest("driver", Object.keys(value)) !== undefined;
  return mistyped || hasSection(value) ? "connection" : "other";
}

/** Whether there is a section that only connection files have; other programs have a "driver", too. */
export const hasSection = (value: unknown): boolean =>
  isMapping(value) && Object.keys(value).some(key => sections.has(key));

const isHelm = (value: Mapping): boolean =>
  isMapping(value["csiDriver"]) ||
  (isMapping(value["driver"]) && ("config" in value["driver"] || "existingConfigSecret" in value["driver"]));

/** Values of csimux's own chart: with a mode or a driver's name, with connections, or with classes that name connections. */
const isChart = (value: Mapping): boolean =>
  typeof value["driverName"] === "string" ||
  value["mode"] === "central" ||
  value["mode"] === "node-local" ||
  (Array.isArray(value["storageClasses"]) &&
    value["storageClasses"].some(each => "connection" in mappingOf(mappingOf(each)["parameters"]))) ||
  Object.values(mappingOf(value["connections"])).some(
    each => typeof each === "string" && isConfiguration(kindOfText(each)),
  );

/** Whether csimux itself reads such a file. */
export const isConfiguration = (kind: DocumentKind): kind is "main" | "connection" =>
  kind === "main" || kind === "connection";

/** The key of an umbrella chart with the values of democratic-csi's chart. */
export const helmBelow = (value: Mapping): string | undefined =>
  isHelm(value) ? undefined : Object.keys(value).find(key => isHelm(mappingOf(value[key])));

/** The key of an umbrella chart with the values of csimux's chart. */
export const chartBelow = (value: Mapping): string | undefined =>
  isChart(value) ? undefined : Object.keys(value).find(key => isChart(mappingOf(value[key])));

const mappingOf = (value: unknown): Mapping => (isMapping(value) ? value : {});

/** A guess for a document that cannot be parsed. */
export function kindOfText(text: string): DocumentKind {
  if (/^["']?apiVersion["']?:/m.test(text))
    return objectKind(/^["']?kind["']?:\s*["']?(\w+)/m.exec(text)?.[1] ?? "") ?? "other";
  if (/^["']?driver["']?\s*:/m.test(text)) return "connection";
  // One at a time: a text may have millions of keys.
  for (const [, key = ""] of text.matchAll(/^([\w-]+)\s*:/gm)) if (sections.has(key)) return "connection";
  return "other";
}
