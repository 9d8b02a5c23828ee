import { isMapping, type Mapping } from "../../../core/mapping.ts";
import { property } from "../../zfs/properties.ts";
import type { Entry, Property } from "../../zfs/zfs.ts";
import { isSettable, isUserProperty, ownedName, zfsName } from "./values.ts";

/** Rows of the API about datasets and snapshots, as entries of the port. */

/** User properties of the parent dataset; undefined if each property has its own source. */
type Inherited = Mapping | undefined;

const fieldsIn = (value: unknown): Mapping => (isMapping(value) ? value : {});

const local: ReadonlySet<unknown> = new Set(["LOCAL", "RECEIVED"]);

function sourceOf(source: unknown): unknown {
  return isMapping(source) ? source["type"] : source;
}

const text = (value: unknown): string | undefined => {
  if (value === undefined || value === null || value === "" || value === "-") return undefined;
  return String(value);
};

/** An entry with the wanted properties that have a value. */
function entry(name: string, wanted: readonly string[], all: ReadonlyMap<string, Property>): Entry {
  const properties = wanted.flatMap(key => {
    const property = all.get(key);
    return property === undefined ? [] : [[key, property] as const];
  });
  return { name, properties: new Map(properties) };
}

/**
 * Whether a user property is set on the row itself. From 25.10 on the API does not answer that, so a value that the parent has, too, counts
 * as inherited. A value that is set on both therefore makes a volume look foreign, never the reverse.
 */
function isOwn(row: Mapping, key: string, value: string, inherited: Inherited): boolean {
  if (inherited?.[key] !== value) return true;
  // A CSI driver sets all properties of a snapshot that has its own name property.
  const name = fieldsIn(row["user_properties"])[snapshotName] ?? fieldsIn(row["properties"])[snapshotName];
  const mark = text(fieldsIn(name)["rawvalue"] ?? name);
  return mark !== undefined && inherited[snapshotName] !== mark && key.startsWith("democratic-csi:");
}

const snapshotName = "democratic-csi:csi_snapshot_name";

/** A row of zfs.resource.query or zfs.resource.snapshot.query (25.10 and newer). */
export function resourceEntry(row: Mapping, wanted: readonly string[], inherited: Inherited): Entry {
  const name = String(row["name"]);
  const all = new Map<string, Property>([["type", { value: String(row["type"]).toLowerCase(), own: false }]]);
  for (const [key, each] of Object.entries(fieldsIn(row["properties"]))) {
    const value = text(fieldsIn(each)["raw"]);
    if (value !== undefined) all.set(key, { value, own: local.has(sourceOf(fieldsIn(each)["source"])) });
  }
  for (const [key, each] of Object.entries(fieldsIn(row["user_properties"]))) {
    const value = text(each);
    if (value !== undefined) all.set(key, { value, own: isOwn(row, key, value, inherited) });
  }
  return entry(name, wanted, all);
}

/** The new dataset in the answer of a creation. Only the values of the request can be its own. */
export function createdEntry(answer: unknown, wanted: readonly string[], values: Mapping): Entry | undefined {
  if (text(fieldsIn(answer)["id"]) === undefined) return undefined;
  const { name, properties } = shownEntry(fieldsIn(answer), wanted, undefined);
  const all = [...properties].map(([key, { value, own }]) => [key, { value, own: own && key in values }] as const);
  return { name, properties: new Map(all) };
}

/**
 * The new snapshot in the answer of a creation. 26 takes it with all its properties or not at all, and then reads when it was taken, but not
 * the properties (plugins/zfs/snapshot_create_impl.py of TS-26.0.0-BETA.3). Undefined where the answer does not tell its size.
 */
export function takenEntry(answer: unknown, wanted: readonly string[], values: Mapping): Entry | undefined {
  const row = fieldsIn(answer);
  if ("id" in row) return createdEntry(row, wanted, values);
  if (!("creation" in fieldsIn(row["properties"])) || !(property.bytes in values)) return undefined;
  return resourceEntry({ ...row, user_properties: values }, wanted, undefined);
}

/** The properties that are set on a dataset itself, by their ZFS names; `row` is from pool.dataset.query. */
export function localValues(row: Mapping): Readonly<Record<string, string>> {
  const shown = Object.entries({ ...row, ...fieldsIn(row["user_properties"]) });
  const pairs = shown.flatMap(([key, each]) => {
    const { rawvalue, source } = fieldsIn(each);
    const name = ownedName(key) ?? zfsName(key);
    const value =
      local.has(sourceOf(source)) && (isUserProperty(name) || isSettable(name)) ? text(rawvalue) : undefined;
    return value === undefined ? [] : [[name, value]];
  });
  return Object.fromEntries(pairs);
}

/** A row of pool.dataset.query, zfs.snapshot.query or pool.snapshot.query, where each property has a raw value and a source. */
export function shownEntry(row: Mapping, wanted: readonly string[], inherited: Inherited): Entry {
  const name = String(row["id"] ?? row["name"]);
  const all = new Map<string, Property>([
    ["type", { value: String(row["type"] ?? "snapshot").toLowerCase(), own: false }],
  ]);
  const shown = { ...row, ...fieldsIn(row["properties"]), ...fieldsIn(row["user_properties"]) };
  for (const [key, each] of Object.entries(shown)) {
    const fields = fieldsIn(each);
    if (!("rawvalue" in fields)) continue;
    const value = text(fields["rawvalue"]);
    const named = local.has(sourceOf(fields["source"]));
    const own = isUserProperty(key) ? named && isOwn(row, key, value ?? "", inherited) : named;
    const received = sourceOf(fields["source"]) === "RECEIVED";
    if (value !== undefined) all.set(zfsName(key), { value, own, ...(received && { received }) });
  }
  const mountpoint = text(row["mountpoint"]);
  if (mountpoint !== undefined && !all.has("mountpoint")) all.set("mountpoint", { value: mountpoint, own: false });
  return entry(name, wanted, all);
}
