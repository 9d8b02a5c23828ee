import * as v from "valibot";
import { maxInt64 } from "../core/bytes.ts";
import type { Call } from "../core/call.ts";
import { CsiError, codes } from "../core/errors.ts";
import { type Handle, parseHandle } from "../core/handle.ts";
import { isMapping } from "../core/mapping.ts";
import {
  type CopySpec,
  type CopyTarget,
  maxRecordBytes,
  type SourceSnapshot,
  type StoredCopy,
} from "../drivers/copying.ts";
import { unclaimed } from "../drivers/tenure.ts";

/** The version of the records that this csimux writes, and the only one that it reads. */
const version = 1;

const bytes = v.pipe(
  v.string(),
  v.regex(/^[0-9]{1,19}$/),
  v.transform((digits: string) => BigInt(digits)),
  v.check(size => size <= maxInt64, "the size is too large"),
);

/** Texts by key. valibot's `record` leaves out keys such as "prototype" without a word. */
export const texts = v.custom<Readonly<Record<string, string>>>(
  value => isMapping(value) && Object.values(value).every(each => typeof each === "string"),
  "must have texts only",
);

/** The number of a pass: its snapshot's name ends with it. */
const pass = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1_000_000));

/** Until the year 9999: later times have no text. */
const time = v.pipe(v.number(), v.minValue(0), v.maxValue(253_402_300_799));

/** The methods as records spell them. */
const storedMethods = {
  "zfs-send-local": "stream-here",
  "zfs-send": "stream",
  rsync: "files",
  restore: "fill",
} as const;
const methodOf = { "stream-here": "zfs-send-local", stream: "zfs-send", files: "rsync", fill: "restore" } as const;
const method = v.pipe(
  v.picklist(["stream-here", "stream", "files", "fill"]),
  v.transform(name => methodOf[name]),
);

const snapshotSchema = v.pipe(
  v.strictObject({
    name: v.string(),
    proof: v.string(),
    bytes,
    toSend: bytes,
    stable: v.boolean(),
    ways: v.optional(v.pipe(v.array(method), v.readonly())),
    traits: v.strictObject({ encrypted: v.optional(v.boolean()), blockBytes: bytes, fixed: texts }),
  }),
  v.transform(({ ways, ...rest }): SourceSnapshot => ({ ...rest, ...(ways && { methods: ways }) })),
);

/** The keys of version 1. `renamed` is what six of them are called in memory, `storedMethods` what methods are called here. */
const recordSchema = v.pipe(
  v.strictObject({
    version: v.literal(version),
    origin: v.strictObject({ kind: v.picklist(["volume", "snapshot"]), handle: v.string() }),
    /** The name of the new volume. */
    name: v.string(),
    /** Who drives the copy: requests for a volume ("create"), or the commands of `csimux move` ("move"). */
    role: v.picklist(["create", "move"]),
    /** The requested size. */
    required: v.optional(bytes),
    limit: v.optional(bytes),
    way: method,
    /** Whether the streams of all passes omit the features that older pools may lack. */
    basic: v.boolean(),
    /** The number of the pass (of a move; otherwise 0), the snapshot that it copies, and when that was taken. */
    round: pass,
    moment: snapshotSchema,
    taken: time,
    /** The snapshot of the last complete pass. */
    earlier: v.optional(v.strictObject({ name: v.string(), proof: v.string() })),
    /**
     * "copying": data is missing, whether or not a process works on it; "ready": all data of the pass has arrived; "finished": it is the volume;
     * "cancelled": it is over, because it failed for good (`code`), or a person cancelled it, which a mark next to the record says first (`recordOf`).
     */
    state: v.picklist(["copying", "ready", "finished", "cancelled"]),
    /** Whether data may have been written into the target. */
    dirty: v.boolean(),
    /** The bytes of the pass that have arrived, and all bytes of the pass (0: unknown). */
    done: bytes,
    total: bytes,
    /** The time of the last request for it. */
    asked: time,
    /** The holder of its lease: the process that works on it, or was killed while it did; empty: none. The holder raises the heartbeat at intervals. */
    owner: v.string(),
    beat: v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
    /**
     * Set if a holder was not proved to have ended: it may only have been suspended, and its programs still write files into the target, until
     * that is replaced by an empty one. Of a stream, what still receives is ended before each attempt.
     */
    unfenced: v.optional(v.literal(true)),
    /** The last failure; empty after a success. */
    fault: v.string(),
    /** With state "cancelled": the code of the failure that has ended the copy. */
    code: v.optional(v.picklist(codes)),
    /** The first pass that can become the volume: earlier ones began before `freeze` stopped the source. Undefined while pods may use it. */
    frozen: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
    /** The parameters of the new volume; absent if requests for a volume contain them. */
    move: v.optional(v.strictObject({ parameters: texts, mutable: texts })),
  }),
  v.transform(({ version: _, way, round, moment, taken, owner, beat, ...rest }) => {
    const renamed = { method: way, pass: round, snapshot: moment, snapshotTime: taken, holder: owner, heartbeat: beat };
    return { ...rest, ...renamed };
  }),
);

/** The record of a copy, which the target's storage keeps. Sizes are bytes, times are seconds since 1970. */
export type CopyRecord = Readonly<v.InferOutput<typeof recordSchema>>;

/** A record with the keys of version 1. */
function stored({ method: by, pass: round, snapshot, snapshotTime, holder, heartbeat, ...rest }: CopyRecord) {
  const { methods, ...moment } = snapshot;
  const ways = methods?.map(each => storedMethods[each]);
  const keys = { round, taken: snapshotTime, owner: holder, beat: heartbeat, way: storedMethods[by] };
  return { version, ...rest, ...keys, moment: { ...moment, ...(ways && { ways }) } };
}

/** The longest text of a failure that a record keeps, in characters. */
const maxFault = 300;

/** The text of a record, without its failure if that does not fit. Throws "invalid-argument" if its parameters are too long. */
export function writeRecord(record: CopyRecord): string {
  for (const fault of [record.fault.slice(0, maxFault), ""]) {
    const whole = stored({ ...record, fault });
    const text = JSON.stringify(whole, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value));
    if (Buffer.byteLength(text) <= maxRecordBytes) return text;
  }
  const message = `the copy to volume "${record.name}" cannot be recorded: the parameters of its class are too long; shorten them`;
  throw new CsiError("invalid-argument", message);
}

/**
 * Reads a record; `place` says where it is ("volume v:b/x"). Throws "failed-precondition" for one that is damaged or of a newer csimux:
 * such a copy is neither continued nor removed.
 */
export function readRecord(text: string, place: string): CopyRecord {
  if (text.length > maxRecordBytes) throw unreadable(place, `it is longer than ${maxRecordBytes} bytes`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw unreadable(place, "it is not JSON", cause);
  }
  const found = typeof value === "object" && value !== null && "version" in value ? value.version : undefined;
  if (typeof found === "number" && found > version)
    throw unreadable(place, `its version is ${found}, and this csimux knows version ${version}; update csimux`);
  const read = v.safeParse(recordSchema, value);
  if (!read.success) throw unreadable(place, `${v.getDotPath(read.issues[0]) ?? "it"}: ${read.issues[0].message}`);
  return read.output;
}

/** The record of a target, with the state "cancelled" if it is marked so and is not the volume yet. Throws like `readRecord`. */
export function recordOf({ record: text, isCancelled }: StoredCopy, place: string): CopyRecord {
  const record = readRecord(text, place);
  return isCancelled && record.state !== "finished" ? { ...record, state: "cancelled" } : record;
}

/** Where the record of a copy is: on its target's storage. */
export interface RecordPlace {
  /** The CSI id of the new volume. */
  readonly target: string;
  /** The driver's id. */
  readonly id: string;
  readonly use: <T>(work: (copyTarget: CopyTarget) => Promise<T>) => Promise<T>;
}

/** The record of a copy; undefined if there is none. Throws like `readRecord`. */
export async function currentRecord({ target, id, use }: RecordPlace, call: Call): Promise<CopyRecord | undefined> {
  const stored = await use(copyTarget => copyTarget.find(id, call));
  return stored && recordOf(stored, `volume ${target}`);
}

/** Replaces the record of a copy; durable when it resolves. The caller must have proved that no other process is its holder. */
export async function replaceRecord({ id, use }: RecordPlace, record: CopyRecord, call: Call): Promise<void> {
  const text = writeRecord(record);
  await use(copyTarget => copyTarget.note(id, text, call));
}

const unreadable = (place: string, why: string, cause?: unknown): CsiError =>
  new CsiError(
    "failed-precondition",
    `the record of the copy to ${place} cannot be used: ${why}. The copy is left as it is; remove it by hand if it is not needed`,
    { cause },
  );

/** A record does not agree with the source: nothing in it is trusted. */
export class ChangedRecordError extends CsiError {
  constructor(text: string) {
    super("failed-precondition", text);
  }
}

/** What a complete copy proves about its content, in words. */
export function assurance({ snapshot, pass, frozen, method: by }: CopyRecord): string {
  // rsync compares no content, and a restore none at all.
  const isStream = by === "zfs-send" || by === "zfs-send-local";
  if (isStream && snapshot.proof !== "") return "its content is proved to be that of its source";
  if (snapshot.stable) return "the names, sizes and times of its files equal those of the snapshot";
  return frozen !== undefined && pass >= frozen
    ? "its last pass began after its source was stopped"
    : "its source may have changed during the copy";
}

/** The source of a copy. Throws "internal" for a record that `beginCopy` cannot have written. */
export function sourceOf({ origin }: CopyRecord): Handle {
  const source = parseHandle(origin.handle, origin.kind);
  if (source) return source;
  throw new CsiError("internal", `the record of a copy names the source "${origin.handle}"`);
}

/** The volume that a move makes. Throws "failed-precondition" for a copy that requests for a volume drive. */
export function specOf({ name, required, limit, origin, move }: CopyRecord): CopySpec {
  const tenant = move && unclaimed(name, move.parameters);
  if (move) return { name, range: { required, limit }, origin, source: undefined, tenant, ...move };
  throw new CsiError(
    "failed-precondition",
    `the copy to volume "${name}" belongs to a claim, whose requests continue it; wait for the claim`,
  );
}

/** The error if another process has the lease of the copy to a volume (a CSI id). */
export function heldElsewhere(volume: string, record?: CopyRecord, cause?: unknown): CsiError {
  const done = record && record.done > 0n ? ` (${record.done >> 20n} of ${record.total >> 20n} MiB)` : "";
  const text = `volume ${volume} is being copied by another csimux${done}; if that was killed, this one takes over after about 90 s`;
  return new CsiError("aborted", text, { cause });
}

/** The answer to the request for a volume whose copy has ended for good: the failure that ended it, or that a person cancelled it. */
export function whyEnded({ name, role, code, fault }: CopyRecord): CsiError {
  if (code !== undefined) return new CsiError(code, fault);
  const advice = role === "create" ? "; delete the claim" : "";
  return new CsiError("failed-precondition", `the copy to volume "${name}" was cancelled${advice}`);
}
