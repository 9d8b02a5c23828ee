import * as v from "valibot";
import { accessModes } from "../core/access.ts";
import { CsiError, codes } from "../core/errors.ts";
import { texts } from "./record.ts";

/**
 * The requests and answers of the command socket: a client sends one request as one line of JSON and receives lines of JSON; the last one
 * is of kind "done" or "failed". Sizes are bytes as decimal strings, because JSON numbers are exact only up to 2^53; times are seconds since
 * 1970. Work continues when the client disconnects; a repeated request joins it.
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

const capability = v.strictObject({
  kind: v.picklist(["mount", "block"]),
  fsType: v.optional(v.string()),
  mode: v.picklist(accessModes),
});

/** The new volume, and the volume of another connection whose content it gets. */
const wanted = {
  /** The volume to copy, a CSI id. */
  source: handle,
  /** The name of the new volume, from which its id follows; a repeated request has the same one. */
  name: v.pipe(v.string(), v.minLength(1), v.maxLength(128)),
  /** Its size. */
  bytes: size,
  /** The parameters of its class; "connection" names the connection or group. */
  parameters: texts,
  /** How it will be used; refused if the connection does not support that. */
  capabilities: v.optional(v.array(capability), []),
  /** The parameters of a VolumeAttributesClass. */
  mutable: v.optional(texts, {}),
};

const target = handle;

const commandSchema = v.variant("command", [
  /** Checks whether and how the copy would be made; changes nothing. Done: `method` and `instead`. */
  v.strictObject({ command: v.literal("plan"), ...wanted }),
  /** Creates the empty target, or finds it. Done: `target`, `method` and `instead`. Copies nothing yet. */
  v.strictObject({ command: v.literal("begin"), ...wanted }),
  /**
   * Completes the interrupted pass, if there is one. Otherwise takes a new snapshot and copies the changes since the last one. Sends lines of
   * progress. Done: `pass`. After `freeze`, repeat it until `pass.continued` is false: only that pass's snapshot is from after the freeze,
   * and `finish` refuses earlier ones.
   */
  v.strictObject({ command: v.literal("pass"), target }),
  /** Makes the last complete pass the volume. Done: `volume`. */
  v.strictObject({ command: v.literal("finish"), target }),
  /**
   * Sets a volume to read-only, or back to writable, and notes in the records of its moves that passes from before cannot become the new
   * volume. If its storage cannot set it to read-only, `instead` says so; fails with "failed-precondition" if there is no such record either.
   */
  v.strictObject({ command: v.literal("freeze"), volume: handle }),
  v.strictObject({ command: v.literal("thaw"), volume: handle }),
  /** Removes the target and ends the protection of the source. Fails with "failed-precondition" for a finished volume. */
  v.strictObject({ command: v.literal("cancel"), target }),
  /**
   * Sends a line of kind "copy" for each record. Done: `listed` and `unlisted`, names of connections, and `kept`; copies on connections
   * that are not in `listed` are unknown.
   */
  v.strictObject({ command: v.literal("list") }),
]);

/** A request. */
export type CopyCommand = v.InferOutput<typeof commandSchema>;

/** A request as a client writes it: sizes are strings. */
export type CopyCommandInput = v.InferInput<typeof commandSchema>;

const methods = v.picklist(["zfs-send-local", "zfs-send", "rsync", "restore"]);

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
   * "copying": a process works on it or waits for its turn, or was killed meanwhile (`holder` is that process); "paused": data is missing, and
   * no process works on it, because no request came, csimux was stopped, or it failed (`fault`); "ready": all data of the pass has arrived,
   * and `finish`, or the next request of a claim, makes it the volume; "finished": it is the volume, and its record will be removed;
   * "cancelled": it was cancelled or ended for good; what is left, sometimes only the record, refuses the next request and is then removed;
   * "unreadable": the record is damaged or of a newer csimux.
   */
  state: v.picklist(["copying", "paused", "ready", "finished", "cancelled", "unreadable"]),
  method: v.optional(methods),
  /** How many copies are in front of it, while it waits for its turn in this process. */
  ahead: v.optional(v.number()),
  /** The number of the current pass, from 0. */
  pass: v.number(),
  done: size,
  /** 0: unknown. */
  total: size,
  /** Bytes per second; 0: unknown, or this process does not copy. */
  rate: size,
  /** The time of the last request for it. */
  asked: v.number(),
  /** The random id of the process that works on it, or was killed while it did; empty: none. */
  holder: v.string(),
  /** The last failure; empty after a success. */
  fault: v.string(),
});

const passDone = v.strictObject({
  /** From 0. */
  number: v.number(),
  /** When its snapshot was taken. */
  snapshotTime: v.number(),
  /** Whether its snapshot was taken before this request: the pass was interrupted, or it is the first one, whose snapshot `begin` takes. */
  continued: v.boolean(),
  /** Bytes that this pass copied. */
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
  /** Its accessible topology: nodes with all segments of one entry reach it; empty: all nodes. */
  topology: v.array(texts),
});

const answerSchema = v.variant("kind", [
  /** Sent repeatedly while the copy runs or waits for its turn; `text` is the text of the claim's event. */
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
    method: v.optional(methods),
    /** Why each cheaper method is not used, or a volume stays writable, one sentence each. */
    instead: v.optional(v.array(v.string())),
    pass: v.optional(passDone),
    volume: v.optional(volume),
    /** The connections whose copies were all listed. */
    listed: v.optional(v.array(v.string())),
    /** The connections that did not answer. */
    unlisted: v.optional(v.array(v.string())),
    /** What copies have left that is removed only when the connection of their other end has a file again, one sentence each. */
    kept: v.optional(v.array(v.string())),
  }),
  v.strictObject({ kind: v.literal("failed"), code: v.picklist(codes), message: v.string() }),
]);

/** One line of an answer. */
export type CopyAnswer = v.InferOutput<typeof answerSchema>;

/** A copy as `list` reports it. */
export type CopyState = v.InferOutput<typeof copyState>;

/** Why a text is not a valid request or answer. */
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
