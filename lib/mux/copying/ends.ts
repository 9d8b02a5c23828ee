import type { CopyRecord } from "../../copy/record.ts";
import { CsiError } from "../../core/errors.ts";
import { encodeHandle, type Handle, parseHandle } from "../../core/handle.ts";
import type { CopySpec, TakingAbility } from "../../drivers/copying.ts";
import type { Volume } from "../../drivers/driver.ts";
import { segmentsOf } from "../../topology/accessible-topology.ts";
import type { Connection, ConnectionRecord } from "../connection.ts";
import type { CopyEnd } from "./ways.ts";

/** The connections with a file that was valid at some time, as it was last. Opens none. */
export const knownEnds = (records: readonly ConnectionRecord[]): readonly CopyEnd[] =>
  records.flatMap(({ name, lastValid }) =>
    lastValid ? [{ name, ...lastValid.facts, ...lastValid.facts.abilities }] : [],
  );

/** A finished volume as the answer to a client describes it. */
export function described(connection: Connection, { id, bytes, context }: Volume) {
  const handle = encodeHandle({ kind: "volume", connection: connection.name, id });
  const topology = connection.accessibleTopology.map(each => ({ ...segmentsOf(each) }));
  return { handle, bytes, context: { ...context }, topology };
}

/** Throws "invalid-argument" if the source is on the same connection. */
export function other(source: Handle, { name }: Connection): Handle {
  if (source.connection !== name) return source;
  throw new CsiError("invalid-argument", `volume ${encodeHandle(source)} is on connection "${name}" already`);
}

/** What a complete copy proves about its content, in words. */
export function assurance({ moment, round, frozen }: CopyRecord): string {
  if (moment.proof !== "") return "its content is proved to be that of its source";
  if (moment.stable) return "the names, sizes and times of its files equal those of the snapshot";
  return frozen !== undefined && round >= frozen
    ? "its last round began after its source was stopped"
    : "its source may have changed during the copy";
}

/** The source of a copy. Throws "internal" for a record that admission cannot have written. */
export function sourceOf({ origin }: CopyRecord): Handle {
  const source = parseHandle(origin.handle, origin.kind);
  if (source) return source;
  throw new CsiError("internal", `the record of a copy names the source "${origin.handle}"`);
}

/** The volume that a move makes. Throws "failed-precondition" for a copy that requests for a volume drive. */
export function specOf({ name, required, limit, origin, move }: CopyRecord): CopySpec {
  if (move) return { name, range: { required, limit }, origin, source: undefined, ...move };
  throw new CsiError(
    "failed-precondition",
    `the copy to volume "${name}" belongs to a claim, whose requests continue it; wait for the claim`,
  );
}

/** Throws "invalid-argument" if the connection cannot take content. */
export function takingOn({ name, driverName, driver }: Connection): TakingAbility {
  if (driver.taking) return driver.taking;
  const text = `connection "${name}" (driver ${driverName}) cannot take content of other connections; name the source's connection`;
  throw new CsiError("invalid-argument", text);
}

/** The id that the volume of this name will have. */
export const targetOf = ({ name }: Connection, taking: TakingAbility, volume: string): Handle => ({
  kind: "volume",
  connection: name,
  id: taking.idOf(volume),
});

/** The error if another process, or another request to this one, works on the copy. */
export function elsewhere(target: Handle, record?: CopyRecord): CsiError {
  const done = record && record.done > 0n ? `: ${record.done >> 20n} of ${record.total >> 20n} MiB` : "";
  return new CsiError("aborted", `volume ${encodeHandle(target)} is being copied by another csimux${done}`);
}

/** The answer to the request for a volume whose copy has ended for good: the failure that ended it, or that a person cancelled it. */
export function whyEnded({ name, role, code, fault }: CopyRecord): CsiError {
  if (code !== undefined) return new CsiError(code, fault);
  const advice = role === "create" ? "; delete the claim" : "";
  return new CsiError("failed-precondition", `the copy to volume "${name}" was cancelled${advice}`);
}
