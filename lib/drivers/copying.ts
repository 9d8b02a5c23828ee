import { createHash } from "node:crypto";
import type { Call } from "../core/call.ts";
import type { Argv, CommandRunner } from "../io/runner.ts";
import type { StorageHost } from "../io/script.ts";
import type { Context, ForeignSource, Source, Volume, VolumeSpec } from "./volume.ts";

/**
 * Copies between connections: a moment of a source on one connection becomes a volume on another one. Until it is complete it is a
 * landing: nothing lists it, and no node can reach it. All state of a copy is in a record on the target's storage, which is written
 * before the first byte; a process keeps only what it may lose.
 */

/** The request for a volume with the content of another connection's volume or snapshot. */
export type CopySpec = VolumeSpec & { readonly origin: ForeignSource };

/**
 * Why encrypted content must not become a volume, in words; undefined if it may. Unknown counts as encrypted for a source, and as plain for
 * a target. Where the file of the source's connection allows plain copies, the caller passes a moment with `encrypted: false`.
 */
export function whyNotPlain(source: boolean | undefined, target: boolean | undefined): string | undefined {
  if (source === false || target === true) return undefined;
  const what = source === true ? "the source is encrypted" : "nothing shows that the source is not encrypted";
  return `${what}, and the new volume would not be; set copies.allowPlain in the file of the source's connection, or encrypt the parent`;
}

/** What a stream of a moment forces on its receiver. */
export interface MomentTraits {
  /** Undefined if unknown. */
  readonly encrypted: boolean | undefined;
  /** The block size of a zvol in bytes; 0 for files. */
  readonly blockBytes: bigint;
  /** Properties that can be set at creation only, such as `casesensitivity`, by name. */
  readonly fixed: Context;
}

/** A moment of a source, protected so that it can be read for hours, and again after a restart. */
export interface Moment {
  /** The name that the source's storage knows: a ZFS snapshot, a folder. */
  readonly name: string;
  /** The same on a true copy: the guid of a ZFS snapshot. Empty if there is none. */
  readonly proof: string;
  /** The smallest size in bytes of a volume that takes it. */
  readonly bytes: bigint;
  /** An estimate of the bytes to send; 0 if unknown. */
  readonly toSend: bigint;
  /** False for a folder that may change while it is read. */
  readonly stable: boolean;
  /** The only ways in which it can be given, of those for which the giver has members; undefined: all of them. */
  readonly ways?: readonly CopyWay[] | undefined;
  readonly traits: MomentTraits;
}

/** A moment that a source protects: for which target (a CSI volume id), and since when (seconds since 1970). */
export interface ProtectedMoment {
  readonly target: string;
  readonly since: number;
}

/**
 * How content travels: as a stream within one machine; as a stream from one machine through this process's machine to another;
 * file by file; or written by the source's tool into a folder.
 */
export type CopyWay = "stream-here" | "stream" | "files" | "fill";

/** What a stream contains; only equal formats can be joined. */
export type StreamFormat = "zfs:filesystem" | "zfs:volume";

/** Where a stream starts: at the beginning, at an earlier moment that the receiver has, or where the receiver's token says. */
export type StreamStart =
  | { readonly kind: "whole" }
  | { readonly kind: "since"; readonly moment: Pick<Moment, "name" | "proof"> }
  | { readonly kind: "token"; readonly token: string };

/** A program at one end of a stream, and where it runs. The source writes to its stdout, the target reads its stdin. */
export interface StreamEnd {
  readonly host: StorageHost;
  readonly argv: Argv;
}

/** The ability to send moments as streams. */
export interface StreamSource {
  readonly format: StreamFormat;
  /** Equal for connections whose storage is on one machine, reached by the same host. */
  readonly machine: string;
  /**
   * `basic`: without what older pools may not support (zfs-send(8), -L and -c). `tells`: with a line on stderr each second that says how
   * many bytes were sent (-v and -P). Does no I/O.
   */
  open(moment: Moment, start: StreamStart, basic: boolean, tells?: boolean): StreamEnd;
}

/**
 * What a landing has received: nothing; something that a running program is still writing; everything up to the moment with this
 * proof; or a part, with the token to continue it and the proof of the moment that it belongs to (empty if unknown).
 */
export type ReceivedState =
  | { readonly kind: "nothing" }
  | { readonly kind: "busy" }
  | { readonly kind: "whole"; readonly proof: string }
  | { readonly kind: "partial"; readonly token: string; readonly proof: string };

/** The ability to receive streams into landings. */
export interface StreamTarget {
  readonly format: StreamFormat;
  readonly machine: string;
  state(id: string, call: Call): Promise<ReceivedState>;
  /** `isLater`: the landing has an earlier moment already. Does no I/O. */
  open(id: string, moment: Moment, isLater: boolean): StreamEnd;
  /** Ends the receiving program that a dead process left. The caller owns the copy. */
  stop(id: string, call: Call): Promise<void>;
  /** Discards a partial stream, so that the next one starts at the beginning or at the last complete moment. */
  discard(id: string, call: Call): Promise<void>;
}

/** A folder that programs of `runner` can read and never leave. */
export interface ReadableTree {
  readonly path: string;
  readonly runner: CommandRunner;
}

/** The ability to give the content of other connections' new volumes. Every method may be repeated. */
export interface GivingAbility {
  readonly content: "files" | "blocks";
  /**
   * Takes moment `round` of the source for `target` (a CSI volume id), or finds it, and protects it until `release`. A snapshot has only
   * round 0. Throws "not-found".
   */
  protect(source: Source, target: string, round: number, call: Call): Promise<Moment>;
  /** Gives up what is protected for `target`, except `keep`. Succeeds if there is nothing. */
  release(target: string, keep: Pick<Moment, "name"> | undefined, call: Call): Promise<void>;
  /** Everything that is protected here. */
  protectedMoments(call: Call): Promise<readonly ProtectedMoment[]>;
  /** Forbids or allows writing to a volume. Absent where that is impossible. */
  readonly freeze?: ((id: string, on: boolean, call: Call) => Promise<void>) | undefined;
  readonly stream?: StreamSource | undefined;
  /** Runs `work` on the tree of a moment. */
  readonly tree?: (<T>(moment: Moment, call: Call, work: (tree: ReadableTree) => Promise<T>) => Promise<T>) | undefined;
  /** Writes a moment into an existing empty folder. */
  readonly fill?: ((moment: Moment, folder: string, call: Call) => Promise<void>) | undefined;
}

/** An unfinished copy on its target: the id that the volume will have, and the text of its record. */
export interface Landing {
  readonly id: string;
  readonly record: string;
}

/** The longest text of a record, in bytes of UTF-8. */
export const maxRecordBytes = 4096;

/** The ability to make volumes of content that comes from other connections. Every method may be repeated, and interrupted after any step. */
export interface TakingAbility {
  readonly content: "files" | "blocks";
  /** The id of a volume with this name. Pure. */
  idOf(name: string): string;
  /** The finished volume of this request, if it exists. Throws "already-exists" for one of another size or origin. */
  existing(spec: CopySpec, call: Call): Promise<Volume | undefined>;
  /**
   * Why this moment cannot become this volume by this way, as the error to answer; undefined if it can. "invalid-argument",
   * "failed-precondition", "out-of-range" or "resource-exhausted" (too little space). Changes nothing.
   */
  refusal(way: CopyWay, spec: CopySpec, moment: Moment, call: Call): Promise<Error | undefined>;
  /** Writes the record, then makes the empty landing; or finds both, with the record that is there. Throws "failed-precondition" for foreign objects at its name. */
  begin(spec: CopySpec, moment: Moment, record: string, call: Call): Promise<Landing>;
  /** The landing of an id, from its record. */
  find(id: string, call: Call): Promise<Landing | undefined>;
  /** Replaces the record of a landing; durable when it resolves. */
  note(id: string, record: string, call: Call): Promise<void>;
  /**
   * Proves that the landing holds `moment`, and makes it the volume: size, properties, name, share. May be repeated after it was
   * interrupted at any step, and returns the finished volume. The record stays until `forget`.
   */
  land(id: string, spec: CopySpec, moment: Moment, call: Call): Promise<Volume>;
  /** Removes the landing and keeps its record. Throws like `drop`. */
  empty(id: string, call: Call): Promise<void>;
  /** Removes the landing, its record last. Throws "failed-precondition" for a finished volume. Succeeds if there is nothing. */
  drop(id: string, call: Call): Promise<void>;
  /** Removes the record of a finished volume. */
  forget(id: string, call: Call): Promise<void>;
  /** All records, those of finished volumes included. */
  landings(call: Call): Promise<readonly Landing[]>;
  readonly stream?: StreamTarget | undefined;
  /** The folder of a landing, which this process can write to. */
  readonly folder?: ((id: string, call: Call) => Promise<string>) | undefined;
}

const base32 = "abcdefghijklmnopqrstuvwxyz234567";

/** The name of a copy on both storages: 16 characters of base32 (80 bits) of the SHA-256 of the target's CSI volume id. */
export function copyKey(target: string): string {
  const digest = createHash("sha256").update(target).digest();
  let bits = 0n;
  for (const byte of digest.subarray(0, 10)) bits = (bits << 8n) | BigInt(byte);
  return Array.from({ length: 16 }, (_, at) => base32[Number((bits >> BigInt(75 - 5 * at)) & 31n)]).join("");
}
