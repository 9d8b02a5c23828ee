import * as v from "valibot";
import { type Code, CsiError, codes } from "../core/errors.ts";
import { type CopyWay, type Landing, type Moment, maxRecordBytes } from "../drivers/copying.ts";
import type { Context, ForeignSource } from "../drivers/volume.ts";

/** The version of the records that this csimux writes, and the only one that it reads. */
const version = 1;

/** The largest size that CSI and storage systems can express: int64. */
const mostBytes = 2n ** 63n - 1n;

const bytes = v.pipe(
  v.string(),
  v.regex(/^[0-9]{1,19}$/),
  v.transform((digits: string) => BigInt(digits)),
  v.check(size => size <= mostBytes, "the size is too large"),
);
const texts = v.record(v.string(), v.string());

/** The number of a round: its snapshot's name ends with it. */
const round = v.pipe(v.number(), v.integer(), v.minValue(0), v.maxValue(1_000_000));

/** Until the year 9999: later times have no text. */
const time = v.pipe(v.number(), v.minValue(0), v.maxValue(253_402_300_799));

const way = v.picklist(["stream-here", "stream", "files", "fill"]);

const momentSchema = v.strictObject({
  name: v.string(),
  proof: v.string(),
  bytes,
  toSend: bytes,
  stable: v.boolean(),
  ways: v.optional(v.array(way)),
  traits: v.strictObject({ encrypted: v.optional(v.boolean()), blockBytes: bytes, fixed: texts }),
});

const recordSchema = v.strictObject({
  version: v.literal(version),
  origin: v.strictObject({ kind: v.picklist(["volume", "snapshot"]), handle: v.string() }),
  name: v.string(),
  role: v.picklist(["create", "move"]),
  required: v.optional(bytes),
  limit: v.optional(bytes),
  way,
  basic: v.boolean(),
  round,
  moment: momentSchema,
  taken: time,
  earlier: v.optional(v.strictObject({ name: v.string(), proof: v.string() })),
  state: v.picklist(["copying", "ready", "finished", "cancelled"]),
  dirty: v.boolean(),
  done: bytes,
  total: bytes,
  asked: time,
  owner: v.string(),
  beat: v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
  fault: v.string(),
  code: v.optional(v.picklist(codes)),
  frozen: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  move: v.optional(v.strictObject({ parameters: texts, mutable: texts })),
});

/** The record of a copy, which the target's storage keeps. Sizes are bytes, times are seconds since 1970. */
export interface CopyRecord {
  readonly origin: ForeignSource;
  /** The name of the new volume. */
  readonly name: string;
  /** What continues it: the requests for a volume ("create"), or the commands of `csimux move` ("move"). */
  readonly role: "create" | "move";
  /** The requested size. */
  readonly required: bigint | undefined;
  readonly limit: bigint | undefined;
  readonly way: CopyWay;
  /** Whether the streams of all rounds omit the features that older pools may lack. */
  readonly basic: boolean;
  /** The number of the round, from 0, its moment, and when that was taken. */
  readonly round: number;
  readonly moment: Moment;
  readonly taken: number;
  /** The moment of the last complete round. */
  readonly earlier: Pick<Moment, "name" | "proof"> | undefined;
  /** "ready": all data of the round has arrived; "finished": it is the volume. */
  readonly state: "copying" | "ready" | "finished" | "cancelled";
  /** Whether data may have been written into the landing. */
  readonly dirty: boolean;
  /** The bytes of the round that have arrived, and all bytes of the round (0: unknown). */
  readonly done: bigint;
  readonly total: bigint;
  /** The time of the last request for it. */
  readonly asked: number;
  /** The process that works on it; empty: none. It raises `beat` at intervals. */
  readonly owner: string;
  readonly beat: number;
  /** The last failure; empty after a success. */
  readonly fault: string;
  /** With state "cancelled": the code of the failure that has ended the copy; undefined if a person did. */
  readonly code?: Code | undefined;
  /** The first round that can become the volume: earlier ones began before `freeze` stopped the source. Undefined while pods may use it. */
  readonly frozen?: number | undefined;
  /** The parameters of the new volume; absent if requests for a volume contain them. */
  readonly move: { readonly parameters: Context; readonly mutable: Context } | undefined;
}

/** The longest text of a failure that a record keeps, in characters. */
const maxFault = 300;

/** The text of a record, without its failure if that does not fit. Throws "invalid-argument" if its parameters are too long. */
export function writeRecord(record: CopyRecord): string {
  for (const fault of [record.fault.slice(0, maxFault), ""]) {
    const whole = { version, ...record, fault };
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
  const { required, limit, earlier, code, frozen, move, moment } = read.output;
  const traits = { ...moment.traits, encrypted: moment.traits.encrypted };
  return { ...read.output, required, limit, earlier, code, frozen, move, moment: { ...moment, traits } };
}

/** The record of a landing, with the state "cancelled" if it is marked so and is not the volume yet. Throws like `readRecord`. */
export function recordIn({ record: text, isCancelled }: Landing, place: string): CopyRecord {
  const record = readRecord(text, place);
  return isCancelled && record.state !== "finished" ? { ...record, state: "cancelled" } : record;
}

const unreadable = (place: string, why: string, cause?: unknown): CsiError =>
  new CsiError(
    "failed-precondition",
    `the record of the copy to ${place} cannot be used: ${why}. The copy is left as it is; remove it by hand if it is not needed`,
    { cause },
  );
