import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { encodeHandle, type Handle } from "../core/handle.ts";
import type { CopySource, SourceSnapshot } from "../drivers/copying.ts";
import type { Connections } from "../mux/connections.ts";
import { ability } from "../mux/placement.ts";
import { type CopyWork, copySourceOf } from "./copy-work.ts";
import { ChangedRecordError, type CopyRecord, sourceOf } from "./record.ts";

const smaller = (one: bigint, other: bigint): bigint => (one < other ? one : other);

/**
 * The snapshot that a copy reads, as its source describes it. Only that decides what is read: the record is on the target's storage, whose
 * administrators may not be those of the source, and says how far the copy is. Throws "failed-precondition" if the record names something
 * else, and "not-found" if the source no longer exists. A snapshot with the same name and another proof is a new one: the old one was removed.
 */
export async function ensureSourceSnapshot(
  { source, target, allowPlain }: CopyWork,
  volume: string,
  record: CopyRecord,
  copySource: CopySource,
  call: Call,
): Promise<SourceSnapshot> {
  const { name, proof, bytes } = record.snapshot;
  const refused = (says: string, has: string): CsiError => {
    const where = `the record of the copy to volume ${volume} on connection "${target.connection}"`;
    const what = `${where} says ${says}, but its source, ${record.origin.kind} ${record.origin.handle}, has ${has}`;
    const fix = `so nothing was read; find out who changes records on the storage of "${target.connection}", then repeat the copy`;
    return new ChangedRecordError(`${what}; ${fix}`);
  };
  if (record.role === "create" && (record.pass > 0 || record.earlier))
    throw refused(`that it is in pass ${record.pass}`, "only the first one");
  const found = await copySource.protect({ kind: source.kind, id: source.id }, volume, record.pass, call);
  // A source whose dataset was renamed has its snapshots under new names.
  if (found.name !== name && (proof === "" || found.proof !== proof))
    throw refused(`that "${name.slice(0, 160)}" is copied`, `"${found.name}"`);
  if (found.methods && !found.methods.includes(record.method))
    throw refused(`that it is copied by "${record.method}"`, `only ${found.methods.join(", ")}`);
  if (found.proof !== proof && source.kind === "snapshot")
    throw new CsiError("not-found", `snapshot ${record.origin.handle} was replaced by another one while it was copied`);
  const encrypted = allowPlain ? false : found.traits.encrypted;
  // The snapshot of a folder has the size of its volume, which may have grown since.
  return { ...found, bytes: smaller(bytes, found.bytes), traits: { ...found.traits, encrypted } };
}

const changed = (target: Handle, why: string): CsiError => {
  const where = `the record of the copy to volume ${encodeHandle(target)} on connection "${target.connection}"`;
  const fix = `nothing was read; find out who changes records on the storage of "${target.connection}", then cancel the copy and begin it again`;
  return new ChangedRecordError(`${where} was changed: ${why}; ${fix}`);
};

/**
 * Throws "failed-precondition" unless the record of a move is of the volume that `begin` was asked to copy. The requests for a move name only
 * the target, and the record is on its storage, which must not choose what is read elsewhere: the source itself protects a snapshot for it.
 */
export async function proveOrigin(
  connections: Connections,
  target: Handle,
  record: CopyRecord,
  call: Call,
): Promise<void> {
  const id = await connections.use(target.connection, "retry", async to => ability(to, "copyTarget").idOf(record.name));
  if (id !== target.id) throw changed(target, `it is that of volume "${record.name.slice(0, 128)}"`);
  const source = sourceOf(record);
  const key = encodeHandle(target);
  const all = await connections.use(source.connection, "retry", ({ name, driver }) =>
    copySourceOf(driver, name).protectedSnapshots(call),
  );
  if (all.some(({ volume, target: other }) => volume === source.id && other === key)) return;
  const origin = record.origin.handle.slice(0, 256);
  throw changed(
    target,
    `it names ${record.origin.kind} ${origin} as its source, which was not asked to be copied there`,
  );
}

/** The snapshot of the last pass, as the source has it. Throws "failed-precondition" if the record names another one, or it was removed. */
export async function ensureLastSnapshot(
  target: Handle,
  { snapshot, pass, origin }: CopyRecord,
  source: Handle,
  copySource: CopySource,
  call: Call,
): Promise<SourceSnapshot> {
  const found = await copySource.protect({ kind: source.kind, id: source.id }, encodeHandle(target), pass, call);
  if (found.proof === snapshot.proof && (found.proof !== "" || found.name === snapshot.name)) return found;
  const what = `it says that pass ${pass} has copied "${snapshot.name.slice(0, 256)}" (${snapshot.proof.slice(0, 32)})`;
  throw changed(
    target,
    `${what}, and ${origin.handle} has "${found.name}" (${found.proof}), as also if a person has removed that snapshot`,
  );
}
