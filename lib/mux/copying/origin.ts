import type { CopyRecord } from "../../copy/record.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { encodeHandle, type Handle } from "../../core/handle.ts";
import type { GivingAbility, Moment } from "../../drivers/copying.ts";
import type { Connections } from "../connections.ts";
import { sourceOf, takingOn } from "./ends.ts";

/** The ability of a move's source. Throws "unavailable" if its connection has lost it. */
export function givingOf(connection: string, giving: GivingAbility | undefined): GivingAbility {
  if (giving) return giving;
  throw new CsiError("unavailable", `connection "${connection}" can no longer give content; restore its file`);
}

const changed = (target: Handle, why: string): CsiError => {
  const where = `the record of the copy to volume ${encodeHandle(target)} on connection "${target.connection}"`;
  const fix = `nothing was read; find out who changes records on the storage of "${target.connection}", then cancel the copy and begin it again`;
  return new CsiError("failed-precondition", `${where} was changed: ${why}; ${fix}`);
};

/**
 * Throws "failed-precondition" unless the record of a move is of the volume that `begin` was asked to copy. The requests for a move name only
 * the target, and the record is on its storage, which must not choose what is read elsewhere: the source itself protects a moment for it.
 */
export async function proveOrigin(
  connections: Connections,
  target: Handle,
  record: CopyRecord,
  call: Call,
): Promise<void> {
  const id = await connections.use(target.connection, "retry", async to => takingOn(to).idOf(record.name));
  if (id !== target.id) throw changed(target, `it is that of volume "${record.name.slice(0, 128)}"`);
  const source = sourceOf(record);
  const key = encodeHandle(target);
  const all = await connections.use(source.connection, "retry", ({ name, driver }) =>
    givingOf(name, driver.giving).protectedMoments(call),
  );
  if (all.some(({ volume, target: other }) => volume === source.id && other === key)) return;
  const origin = record.origin.handle.slice(0, 256);
  throw changed(
    target,
    `it names ${record.origin.kind} ${origin} as its source, which was not asked to be copied there`,
  );
}

/** The moment of the last round, as the source has it. Throws "failed-precondition" if the record names another one, or it was removed. */
export async function lastMoment(
  target: Handle,
  { moment, round, origin }: CopyRecord,
  source: Handle,
  giving: GivingAbility,
  call: Call,
): Promise<Moment> {
  const found = await giving.protect({ kind: source.kind, id: source.id }, encodeHandle(target), round, call);
  if (found.proof === moment.proof && (found.proof !== "" || found.name === moment.name)) return found;
  const what = `it says that round ${round} has copied "${moment.name.slice(0, 256)}" (${moment.proof.slice(0, 32)})`;
  throw changed(target, `${what}, and ${origin.handle} has "${found.name}" (${found.proof})`);
}
