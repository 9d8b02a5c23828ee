import type { Call } from "../../core/call.ts";
import { bytesOf, ownValue, shownValue } from "./asset.ts";
import type { Space } from "./space.ts";
import { laterValues, type NewValues } from "./values.ts";
import type { Entry } from "./zfs.ts";

/** What a device holds that nobody has written to is less, in bytes: ZFS' own bookkeeping. */
const writtenBytes = 16n << 10n;

/** A dataset as a creation would have made it. */
interface Expected {
  readonly dataset: string;
  readonly bytes: bigint;
  readonly values: NewValues;
  /** The snapshot that it was to be cloned from; undefined: it was to be empty. */
  readonly origin: string | undefined;
}

/**
 * Marks a dataset that a creation has left bare, and says whether it did. ZFS makes a dataset first and sets its properties in a
 * moment of its own (zfs_ioc_create): a host that loses its power in between has one that nobody knows. It is taken for such a one
 * only when it is as a creation leaves it: none of the properties set on it, nothing below it, and nothing in it but what it was to
 * be cloned from.
 */
export async function markedNow(space: Space, expected: Expected, call: Call): Promise<boolean> {
  const { zfs, names } = space;
  const { dataset, values } = expected;
  const keys = [...Object.keys(values), "type", "origin", "volsize", "logicalreferenced"];
  const look = { names: [names.pool, dataset], properties: [...new Set(keys)] };
  const all = await zfs.family(dataset, look, call.signal);
  const entry = all.get(dataset);
  const alone = ![...all.keys()].some(name => name.startsWith(`${dataset}@`) || name.startsWith(`${dataset}/`));
  if (!entry || !alone || !isBare(space, entry, expected)) return false;
  const isEmpty = expected.origin !== undefined || space.settings.volumes.type === "volume";
  if (!isEmpty && !(await zfs.empty?.(dataset, call.signal))) return false;
  await zfs.set(dataset, laterValues(values), call.signal);
  return true;
}

function isBare({ settings }: Space, entry: Entry, { values, bytes, origin }: Expected): boolean {
  const { type } = settings.volumes;
  if (shownValue(entry, "type") !== type || shownValue(entry, "origin") !== origin) return false;
  // A device has its block size from the beginning.
  const set = Object.keys(values).filter(key => key !== "volblocksize" && ownValue(entry, key) !== undefined);
  if (set.length > 0) return false;
  if (origin !== undefined || type === "filesystem") return true;
  const fresh = bytesOf(shownValue(entry, "logicalreferenced")) < writtenBytes;
  return fresh && bytesOf(shownValue(entry, "volsize")) === bytes;
}
