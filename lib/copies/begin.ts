import { randomInt } from "node:crypto";
import { wantedBytes } from "../core/bytes.ts";
import type { Call } from "../core/call.ts";
import { CsiError, isFinal, messageOf } from "../core/errors.ts";
import type { Handle } from "../core/handle.ts";
import type { CopySettings } from "../core/proxy.ts";
import { type CopyMethod, type CopySpec, copyAbilities, type SourceSnapshot } from "../drivers/copying.ts";
import type { Connection } from "../mux/connection.ts";
import { type MethodChoice, methodsBetween } from "./methods.ts";
import { type CopyRecord, heldElsewhere, type RecordPlace, recordOf, writeRecord } from "./record.ts";
import type { CopyingParts } from "./running-copies.ts";

/** The request for a copy. */
export interface CopyRequest {
  readonly target: Handle;
  readonly source: Handle;
  readonly spec: CopySpec;
  readonly role: CopyRecord["role"];
}

/** Returns the methods; throws the error of a refusal. */
export function allowed(choice: MethodChoice): Extract<MethodChoice, { kind: "methods" }> {
  if (choice.kind === "refused") throw choice.error();
  return choice;
}

/** The methods between two open connections. */
export const methodsOf = (
  from: Connection,
  to: Connection,
  kind: Handle["kind"],
  settings: CopySettings,
): MethodChoice =>
  methodsBetween({ ...from, ...copyAbilities(from.driver) }, { ...to, ...copyAbilities(to.driver) }, kind, settings);

/**
 * Begins a copy: protects a snapshot of the source, chooses the method, and creates the target with its record. Returns that record, or the one of a
 * target that another process has created meanwhile. A refusal leaves nothing on either end. Another failure may leave something, which a
 * repeated request finds.
 */
export async function beginCopy(
  { connections, calls, copies }: CopyingParts,
  request: CopyRequest,
  to: Connection,
  place: RecordPlace,
  call: Call,
): Promise<CopyRecord> {
  const { source, spec } = request;
  const { target: key } = place;
  return connections.use(source.connection, "retry", async from => {
    const { methods, instead } = allowed(methodsOf(from, to, source.kind, copies.settings()));
    const { copySource } = from.driver;
    if (!copySource) throw new CsiError("internal", "a connection with methods can give content");
    const made = await calls.make(from, () => copySource.protect({ kind: source.kind, id: source.id }, key, 0, call));
    const snapshot = relaxed(made, from);
    try {
      refuseSize(spec, snapshot);
      const given = methods.filter(method => snapshot.methods?.includes(method) ?? true);
      if (given.length === 0) throw noMethod(spec, snapshot, from, to);
      const chosen = await choose(given, spec, snapshot, place, call);
      const record = newRecord(request, chosen.method, snapshot);
      const stored = await place.use(each => each.begin(spec, snapshot, writeRecord(record), call));
      const why = [...instead, ...chosen.refused];
      call.log.info(`begun to copy volume "${spec.name}" from connection "${from.name}" (${chosen.method})`, {
        ...{ volume: key, source: spec.origin.handle, snapshot: snapshot.name },
        ...(why.length > 0 && { instead: why }),
      });
      return recordOf(stored, `volume ${key}`);
    } catch (error) {
      if (!isFinal(error)) throw error;
      // Another process has begun it: its target may be the cause of this refusal, such as too little space, and it has protected the same snapshot.
      if (await place.use(each => each.find(place.id, call))) throw heldElsewhere(key, undefined, error);
      // With a final error code, nothing may be left: no request follows.
      await calls.make(from, () => copySource.release(key, undefined, call)).catch(notFinal(error));
      throw error;
    }
  });
}

/** The first method that the target accepts, and why it did not accept the others. Throws if there is none. */
async function choose(
  methods: readonly CopyMethod[],
  spec: CopySpec,
  snapshot: SourceSnapshot,
  place: RecordPlace,
  call: Call,
): Promise<{ readonly method: CopyMethod; readonly refused: readonly string[] }> {
  const refused: CsiError[] = [];
  for (const method of methods) {
    const refusal = await place.use(to => to.refusal(method, spec, snapshot, call));
    if (!refusal) return { method, refused: refused.map(({ message }) => message) };
    refused.push(refusal instanceof CsiError ? refusal : new CsiError("failed-precondition", refusal.message));
  }
  // Another member of a group, or another node, may have enough space.
  const space = refused.find(each => each.code === "resource-exhausted") ?? refused[0];
  throw new CsiError(space?.code ?? "internal", refused.map(({ message }) => message).join("; "));
}

/** Throws "already-exists" for a copy from another source, of another size, or for another purpose. */
export function refuseOther(record: CopyRecord, { spec, role }: CopyRequest): void {
  const { origin, range, name } = spec;
  const fault =
    record.name !== name || record.origin.handle !== origin.handle || record.origin.kind !== origin.kind
      ? `it is being copied from ${record.origin.kind} ${record.origin.handle}`
      : record.required !== range.required || record.limit !== range.limit
        ? "it is being copied with another size"
        : record.role !== role
          ? `it is being copied by ${record.role === "move" ? "csimux move" : "a request for a volume"}`
          : undefined;
  if (fault !== undefined) throw new CsiError("already-exists", `volume "${name}" exists already: ${fault}`);
}

/** The error for a source that can be given only in methods that the target cannot take, such as a snapshot in a repository. */
const noMethod = ({ origin }: CopySpec, { methods }: SourceSnapshot, from: Connection, to: Connection): CsiError =>
  new CsiError(
    "invalid-argument",
    `${origin.kind} ${origin.handle} of connection "${from.name}" can be copied only by ${methods?.join(", ")}, which connection "${to.name}" does not support`,
  );

/** With `allowPlain`, marks a snapshot as not encrypted, so that no target refuses it for that. */
const relaxed = (snapshot: SourceSnapshot, { copies }: Connection): SourceSnapshot =>
  copies?.allowPlain ? { ...snapshot, traits: { ...snapshot.traits, encrypted: false } } : snapshot;

/** Throws "out-of-range" if the content cannot fit into the requested size. */
function refuseSize({ name, range }: CopySpec, { bytes }: SourceSnapshot): void {
  wantedBytes(range);
  const [key, most] = range.limit === undefined ? ["required_bytes", range.required] : ["limit_bytes", range.limit];
  if (most === undefined || most >= bytes) return;
  const text = `volume "${name}" would have ${key} ${most}, but its source has ${bytes} bytes`;
  throw new CsiError("out-of-range", text);
}

function newRecord({ spec, role }: CopyRequest, method: CopyMethod, snapshot: SourceSnapshot): CopyRecord {
  const now = Math.floor(Date.now() / 1_000);
  const { name, origin, range, parameters, mutable } = spec;
  return {
    ...{ origin, name, role, required: range.required, limit: range.limit, method, basic: false },
    ...{ pass: 0, snapshot, snapshotTime: now, earlier: undefined, state: "copying", dirty: false },
    // Who has read the record of an earlier copy of this name, and was suspended since, must not claim this one by the same heartbeat.
    ...{ done: 0n, total: snapshot.toSend, asked: now, holder: "", heartbeat: randomInt(2 ** 47), fault: "" },
    move: role === "move" ? { parameters, mutable } : undefined,
  };
}

/** The error after a refusal if the source is still protected: the code makes the caller retry. */
const notFinal = (refusal: unknown) => (cause: unknown) => {
  throw new CsiError(
    "unavailable",
    `${messageOf(refusal)}; the protection of its source could not be removed yet; retrying`,
    {
      cause,
    },
  );
};
