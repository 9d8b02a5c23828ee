import * as v from "valibot";
import { accessModes } from "../core/access.ts";
import { CsiError, codes } from "../core/errors.ts";

/**
 * The requests and answers of the command socket: a client sends one request as one line of JSON, and gets lines of JSON, of which the
 * last is of kind "done" or "failed". Sizes are decimal texts of bytes, because JSON has no whole numbers above 2^53; times are seconds
 * since 1970. A process whose client leaves finishes nothing early: repeat the request, which joins what is running.
 */

/** The command socket of a process with the CSI socket `path`. */
export const commandSocketOf = (path: string): string => `${path}.command`;

/** The longest request in bytes. */
export const maxRequestBytes = 64 << 10;

const size = v.pipe(
  v.string(),
  v.regex(/^[0-9]{1,19}$/, "must be a decimal number of bytes"),
  v.transform((digits: string) => BigInt(digits)),
);
const handle = v.pipe(v.string(), v.minLength(1, "must be a CSI id"), v.maxLength(4096));
const texts = v.record(v.string(), v.string());

const capability = v.strictObject({
  kind: v.picklist(["mount", "block"]),
  fsType: v.optional(v.string()),
  mode: v.picklist(accessModes),
});

/** What a new volume with the content of another connection's volume is to be. */
const wanted = {
  /** The volume to copy, a CSI id. */
  source: handle,
  /** The name of the new volume, from which its id follows; a repeated request has the same one. */
  name: v.pipe(v.string(), v.minLength(1), v.maxLength(128)),
  /** Its size. */
  bytes: size,
  /** The parameters of its class; "connection" names the connection or group. */
  parameters: texts,
  /** What it is used for: refused if the connection does not offer that. */
  capabilities: v.optional(v.array(capability), []),
  /** The parameters of a VolumeAttributesClass. */
  mutable: v.optional(texts, {}),
};

const target = handle;

const commandSchema = v.variant("command", [
  /** Whether and how the copy would be made; changes nothing. Done: `way` and `instead`. */
  v.strictObject({ command: v.literal("plan"), ...wanted }),
  /** Makes the empty landing, or finds it. Done: `target`, `way` and `instead`. Copies nothing yet. */
  v.strictObject({ command: v.literal("begin"), ...wanted }),
  /**
   * Completes the round that was interrupted; without one, takes a new moment and copies what has changed since the last one. Lines of
   * progress. Done: `round`. After `freeze`, repeat until `round.continued` is false: only then was its moment taken afterwards.
   */
  v.strictObject({ command: v.literal("round"), target }),
  /** Makes the last complete round the volume. Done: `volume`. */
  v.strictObject({ command: v.literal("land"), target }),
  /** Forbids, or allows again, writing to a volume. Fails with "failed-precondition" where that is impossible. */
  v.strictObject({ command: v.literal("freeze"), volume: handle }),
  v.strictObject({ command: v.literal("thaw"), volume: handle }),
  /** Removes the landing and the protected moments. Fails with "failed-precondition" for a finished volume. */
  v.strictObject({ command: v.literal("cancel"), target }),
  /**
   * Lines of kind "copy", one for each record of each connection. Done: `listed` and `unlisted`; nothing follows from the absence of a copy
   * whose connection is not in `listed`.
   */
  v.strictObject({ command: v.literal("list") }),
]);

/** A request. */
export type CopyCommand = v.InferOutput<typeof commandSchema>;

/** How a client writes a request: sizes as text. */
export type CopyCommandInput = v.InferInput<typeof commandSchema>;

const ways = v.picklist(["stream-here", "stream", "files", "fill"]);

const copyState = v.strictObject({
  kind: v.literal("copy"),
  /** The CSI id of the new volume. */
  target: v.string(),
  /** The CSI id of the source, and its kind. */
  source: v.string(),
  sourceKind: v.picklist(["volume", "snapshot"]),
  name: v.string(),
  role: v.picklist(["create", "move"]),
  /**
   * "copying": a csimux works on it, or waits for its turn; "paused": it is not asked for; "ready": the data is complete, and it becomes
   * the volume when it is asked for; "finished": it is the volume, and the record will go; "cancelled": only its record waits for the next request;
   * "unreadable": the record is damaged or of a newer csimux.
   */
  state: v.picklist(["copying", "paused", "ready", "finished", "cancelled", "unreadable"]),
  way: v.optional(ways),
  /** The number of the present round, from 0. */
  round: v.number(),
  done: size,
  /** 0: unknown. */
  total: size,
  /** Bytes per second at present; 0: unknown, or nothing runs in this process. */
  rate: size,
  /** When it was last asked for. */
  asked: v.number(),
  /** The process that works on it, a random text; empty: none. */
  owner: v.string(),
  /** The last failure; empty if there was none since. */
  fault: v.string(),
});

const roundDone = v.strictObject({
  /** From 0. */
  number: v.number(),
  /** When its moment was taken. */
  taken: v.number(),
  /** Whether its moment is from before this request: it was interrupted, or it is the first round, whose moment `begin` took. */
  continued: v.boolean(),
  /** Bytes that this round moved. */
  bytes: size,
  /** How long this request worked on it. */
  seconds: v.number(),
});

const volume = v.strictObject({
  /** Its CSI id. */
  handle: v.string(),
  bytes: size,
  /** `volume_context`, for the volumeAttributes of a PersistentVolume. */
  context: texts,
  /** Where it is reachable from, one of these; empty: everywhere. */
  topology: v.array(texts),
});

const answerSchema = v.variant("kind", [
  /** Several times while data moves or the copy waits for its turn; `text` is the sentence of the claim's event. */
  v.strictObject({
    kind: v.literal("progress"),
    text: v.string(),
    done: size,
    total: size,
    /** Bytes per second; 0: unknown. */
    rate: size,
  }),
  copyState,
  v.strictObject({
    kind: v.literal("done"),
    target: v.optional(v.string()),
    way: v.optional(ways),
    /** Why no better way is taken, one sentence for each. */
    instead: v.optional(v.array(v.string())),
    round: v.optional(roundDone),
    volume: v.optional(volume),
    /** The connections whose copies were all listed. */
    listed: v.optional(v.array(v.string())),
    /** The connections that could not be asked. */
    unlisted: v.optional(v.array(v.string())),
  }),
  v.strictObject({ kind: v.literal("failed"), code: v.picklist(codes), message: v.string() }),
]);

/** One line of an answer. */
export type CopyAnswer = v.InferOutput<typeof answerSchema>;

/** A copy as `list` tells it. */
export type CopyState = v.InferOutput<typeof copyState>;

/** Why a text is not a request or an answer. */
const fault = (issues: readonly v.BaseIssue<unknown>[]): string =>
  issues.map(issue => `${v.getDotPath(issue) ?? "the text"}: ${issue.message}`).join("; ");

function parsed<S extends v.GenericSchema>(schema: S, text: string, what: string): v.InferOutput<S> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new CsiError("invalid-argument", `this is not a ${what} of csimux: it is not JSON`, { cause });
  }
  const result = v.safeParse(schema, value);
  if (result.success) return result.output;
  throw new CsiError("invalid-argument", `this is not a ${what} that this csimux knows: ${fault(result.issues)}`);
}

/** Reads a request. Throws "invalid-argument". */
export const readCommand = (line: string): CopyCommand => parsed(commandSchema, line, "request");

/** Reads a line of an answer. Throws "invalid-argument". */
export const readAnswer = (line: string): CopyAnswer => parsed(answerSchema, line, "answer");

/** Writes a request or a line of an answer, without the line break: sizes as decimal texts. */
export const writeLine = (value: CopyCommand | CopyAnswer): string =>
  JSON.stringify(value, (_, inner: unknown) => (typeof inner === "bigint" ? String(inner) : inner));
