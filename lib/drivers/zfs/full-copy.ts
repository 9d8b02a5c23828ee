import type { Call } from "../../core/call.ts";
import { refuseCopy } from "./copies/refusal.ts";
import { property, shownValue } from "./properties.ts";
import { removeStaging } from "./sources.ts";
import type { ZfsStorage } from "./storage.ts";
import { type Copy, type Inspected, type Values, ZfsError } from "./zfs.ts";

/** A full copy of a dataset or snapshot: a dataset of its own, which gets its name when it is complete and has all its properties. */
export interface FullCopy {
  readonly source: string;
  /** The source if that is a snapshot, or the snapshot that is taken of it for this copy. */
  readonly from: string;
  /** The name until it is complete, and the one that it gets then. */
  readonly staging: string;
  readonly to: string;
  /** Whether it must be encrypted. */
  readonly encrypted: boolean;
  /** The values that it has from its beginning, and those that it gets before its name; as in Zfs.set, what it may have grown to. */
  readonly begun: Copy["values"];
  readonly values: Values;
  readonly grows?: Inspected["grows"] | undefined;
}

/**
 * Makes a full copy, or continues an interrupted one. Returns also if another controller has made one meanwhile; then this one is removed. Throws
 * "changed" when another controller works on it, too.
 */
export async function makeFullCopy(storage: ZfsStorage, copy: FullCopy, call: Call): Promise<void> {
  const { zfs } = storage;
  const { signal } = call;
  const { source, from, staging, to } = copy;
  await refuseCopy(storage, source, staging, copy.encrypted, call);
  /** What must be there, with its guid, as long as no one else works on this copy. */
  const used = new Map<string, string | undefined>();
  try {
    used.set(from, from === source ? undefined : await takeSource(storage, copy, call));
    const guid = await zfs.copy({ from, to: staging, values: copy.begun }, signal);
    used.set(staging, guid);
    await zfs.set(staging, copy.values, signal, { guid, ...(copy.grows && { grows: copy.grows }) });
    // Whoever makes the copy again does so under the same name, and gives it its mark last.
    const still = { property: property.managed, value: "true", proved: false };
    await zfs.rename(staging, to, signal, { guid, still });
  } catch (error) {
    if (!(error instanceof ZfsError)) throw error;
    await whileAlone(storage, copy, used, error, call);
  }
}

/** What exists says why a step was refused. Throws the refusal only if it is not due to another controller that makes the same copy. */
async function whileAlone(
  storage: ZfsStorage,
  { source, from, staging, to }: FullCopy,
  used: ReadonlyMap<string, string | undefined>,
  refused: ZfsError,
  call: Call,
): Promise<void> {
  const { zfs, names } = storage;
  const parent = staging.slice(0, staging.lastIndexOf("/"));
  const query = { names: [...new Set([names.pool, parent, to, ...used.keys()])], properties: ["guid"] };
  const found = await zfs.read(query, call.signal);
  const changed = ({ message }: ZfsError) => new ZfsError("changed", message, { cause: refused });
  const isOurs = ([name, guid]: readonly [string, string | undefined]) =>
    found.has(name) && (!guid || (shownValue(found.get(name), "guid") ?? guid) === guid);
  const isMet = ["absent", "exists"].includes(refused.failure) && found.has(parent);
  if (!found.has(to)) throw isMet || ![...used].every(isOurs) ? changed(refused) : refused;
  try {
    // The copy of another controller has the name, so that this one becomes nothing any more.
    await removeStaging(storage, staging, call);
    if (from !== source) await zfs.destroy(from, { deferred: true }, call.signal);
  } catch (error) {
    throw error instanceof ZfsError ? changed(error) : error;
  }
}

/** Takes the snapshot to copy; answers its guid, if that is shown. One that an earlier attempt has left is used only while its copy exists. */
async function takeSource(
  { zfs, names }: ZfsStorage,
  { from, staging }: FullCopy,
  { signal }: Call,
): Promise<string | undefined> {
  const query = { names: [names.pool, staging, from], properties: ["guid"] };
  const continues = (await zfs.read(query, signal)).has(staging);
  if (!continues) await zfs.freeName(from, signal);
  const { made, entries } = await zfs.snapshot([from], {}, query, signal);
  if (!made && !continues) throw new ZfsError("changed", `another call has taken ${from}`);
  return shownValue(entries.get(from), "guid");
}
