import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { GivingAbility, Moment } from "../drivers/copying.ts";
import type { CopyWork } from "./copy-work.ts";
import type { CopyRecord } from "./record.ts";

const smaller = (one: bigint, other: bigint): bigint => (one < other ? one : other);

/**
 * The moment that a copy reads, as its source describes it. Only that decides what is read: the record is on the target's storage, whose
 * administrators may not be those of the source, and says how far the copy is. Throws "failed-precondition" if the record names something
 * else, and "not-found" if the source no longer exists. A moment with the same name and another proof is a new one: the old one was removed.
 */
export async function sourceMoment(
  { source, target, allowPlain }: CopyWork,
  volume: string,
  record: CopyRecord,
  giving: GivingAbility,
  call: Call,
): Promise<Moment> {
  const { name, proof, bytes } = record.moment;
  const refused = (says: string, has: string): CsiError => {
    const where = `the record of the copy to volume ${volume} on connection "${target.connection}"`;
    const what = `${where} says ${says}, but its source, ${record.origin.kind} ${record.origin.handle}, has ${has}`;
    const fix = `so nothing was read; find out who changes records on the storage of "${target.connection}", then repeat the copy`;
    return new CsiError("failed-precondition", `${what}; ${fix}`);
  };
  if (record.role === "create" && (record.round > 0 || record.earlier))
    throw refused(`that it is in round ${record.round}`, "only the first one");
  const found = await giving.protect({ kind: source.kind, id: source.id }, volume, record.round, call);
  // A source whose dataset was renamed has its snapshots under new names.
  if (found.name !== name && (proof === "" || found.proof !== proof))
    throw refused(`that "${name.slice(0, 160)}" is copied`, `"${found.name}"`);
  if (found.ways && !found.ways.includes(record.way))
    throw refused(`that it is copied by "${record.way}"`, `only ${found.ways.join(", ")}`);
  if (found.proof !== proof && source.kind === "snapshot")
    throw new CsiError("not-found", `snapshot ${record.origin.handle} was replaced by another one while it was copied`);
  const encrypted = allowPlain ? false : found.traits.encrypted;
  // The moment of a folder has the size of its volume, which may have grown since.
  return { ...found, bytes: smaller(bytes, found.bytes), traits: { ...found.traits, encrypted } };
}
