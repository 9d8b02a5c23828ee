import { createHash } from "node:crypto";
import type { Call } from "../core/call.ts";
import type { Argv, CommandRunner } from "../io/runner.ts";
import type { StorageHost } from "../io/script.ts";
import type { Context, ForeignSource, Source, Volume, VolumeSpec } from "./volume.ts";

/**
 * Copies between connections: a snapshot of a source on one connection becomes a volume on another one. An incomplete copy is a target,
 * which is not listed and which no node can reach (glossary: CONTRIBUTING.md). The state of a copy is in a record on the target's storage,
 * which is written before the first byte, so that any csimux process can continue it.
 */

/** The request for a volume with the content of another connection's volume or snapshot. */
export type CopySpec = VolumeSpec & { readonly origin: ForeignSource };

/**
 * Why encrypted content must not become a volume, in words; undefined if it may. A source of which nothing is known counts as encrypted, such
 * a target as not encrypted. Where the file of the source's connection allows plain copies, the caller passes a snapshot with `encrypted: false`.
 */
export function whyNotPlain(source: boolean | undefined, target: boolean | undefined): string | undefined {
  if (source === false || target === true) return undefined;
  const what = source === true ? "the source is encrypted" : "nothing shows that the source is not encrypted";
  return `${what}, and the new volume would not be; set copies.allowPlain in the file of the source's connection, or encrypt the parent`;
}

/** Properties of a snapshot that a volume made from it must have, too. */
export interface SnapshotTraits {
  /** Undefined if unknown. */
  readonly encrypted?: boolean | undefined;
  /** The block size of a zvol in bytes; 0 for files. */
  readonly blockBytes: bigint;
  /** Properties that can be set at creation only, such as `casesensitivity`, by name. */
  readonly fixed: Context;
}

/** A snapshot of a source, protected so that it can be read for hours, and again after a restart. */
export interface SourceSnapshot {
  /** Its name on the source's storage, such as that of a ZFS snapshot or of a folder. */
  readonly name: string;
  /** A value that only a complete copy has, too: the guid of a ZFS snapshot. Empty for folders. */
  readonly proof: string;
  /** The smallest size in bytes of a volume that can hold it. */
  readonly bytes: bigint;
  /** An estimate of the bytes to send; 0 if unknown. */
  readonly toSend: bigint;
  /** False for a folder that may change while it is read. */
  readonly stable: boolean;
  /** The methods in which it can be given; undefined: all for which the CopySource has a member. */
  readonly methods?: readonly CopyMethod[] | undefined;
  readonly traits: SnapshotTraits;
}

/** A snapshot that a source protects: for which target (a CSI volume id), and since when (seconds since 1970). */
export interface ProtectedSnapshot {
  /** The volume that it is a snapshot of, by this driver's id; undefined if that is a snapshot, or unknown. */
  readonly volume?: string | undefined;
  readonly target: string;
  readonly since: number;
}

/**
 * How content travels: as a stream within one machine; as a stream from one machine through this process's machine to another;
 * file by file; or written by the source's tool into a folder.
 */
export type CopyMethod = "zfs-send-local" | "zfs-send" | "rsync" | "restore";

/** What a stream contains; only equal formats can be joined. */
export type StreamFormat = "zfs:filesystem" | "zfs:volume";

/** Where a stream starts: at the beginning, at an earlier snapshot that the receiver has, or at the receiver's resume token. */
export type StreamStart =
  | { readonly kind: "whole" }
  | { readonly kind: "since"; readonly snapshot: Pick<SourceSnapshot, "name" | "proof"> }
  | { readonly kind: "token"; readonly token: string };

/** A program at one end of a stream, and where it runs. The source writes to its stdout, the target reads its stdin. */
export interface StreamEnd {
  readonly host: StorageHost;
  readonly argv: Argv;
}

/** The ability to send snapshots as streams. */
export interface StreamSource {
  readonly format: StreamFormat;
  /** Equal for connections whose storage is on one machine, reached by the same host. */
  readonly machine: string;
  /**
   * `basic`: without the features that older pools may lack (zfs-send(8), -L and -c). `tells`: prints the number of sent bytes to stderr
   * each second (-v and -P). Does no I/O.
   */
  open(snapshot: SourceSnapshot, start: StreamStart, basic: boolean, tells?: boolean): StreamEnd;
  /** Whether a token continues this snapshot, as this storage reads the token: it comes from the target and may name anything here. */
  isTokenOf(token: string, snapshot: SourceSnapshot, call: Call): Promise<boolean>;
}

/**
 * What a target has received: nothing; an unknown part, which a running program still writes ("busy"); the whole snapshot with this proof;
 * or a part, with the token that continues it and the proof of its snapshot (empty if unknown).
 */
export type ReceivedState =
  | { readonly kind: "nothing" }
  | { readonly kind: "busy" }
  | { readonly kind: "whole"; readonly proof: string }
  | { readonly kind: "partial"; readonly token: string; readonly proof: string };

/** The ability to receive streams into targets. */
export interface StreamTarget {
  readonly format: StreamFormat;
  readonly machine: string;
  state(id: string, call: Call): Promise<ReceivedState>;
  /** `isLater`: the target has an earlier snapshot already. Does no I/O. */
  open(id: string, snapshot: SourceSnapshot, isLater: boolean): StreamEnd;
  /** Ends a receiving program that a dead process has left. The caller must hold the lease of the copy. */
  stop(id: string, call: Call): Promise<void>;
  /** Discards a partial stream, so that the next one starts at the beginning or at the last complete snapshot. */
  discard(id: string, call: Call): Promise<void>;
}

/** A folder that programs of `runner` can read and never leave. */
export interface ReadableTree {
  readonly path: string;
  readonly runner: CommandRunner;
}

/** The ability to provide content for new volumes of other connections. Every method may be repeated. */
export interface CopySource {
  readonly content: "files" | "blocks";
  /**
   * Takes snapshot `pass` of the source for `target` (a CSI volume id), or finds it, and protects it until `release`. A snapshot has only
   * pass 0. Throws "not-found".
   */
  protect(source: Source, target: string, pass: number, call: Call): Promise<SourceSnapshot>;
  /** Ends the protection of all snapshots for `target`, except `keep`. Succeeds if there is none. */
  release(target: string, keep: Pick<SourceSnapshot, "name"> | undefined, call: Call): Promise<void>;
  /** All protected snapshots of the connection. */
  protectedSnapshots(call: Call): Promise<readonly ProtectedSnapshot[]>;
  /** Sets a volume to read-only (`on`) or back to writable. Absent if the storage cannot do that. */
  readonly freeze?: ((id: string, on: boolean, call: Call) => Promise<void>) | undefined;
  readonly stream?: StreamSource | undefined;
  /**
   * Runs `work` with the files of a snapshot. `isStopped`: nothing writes to the source any more, and all that was written must be read;
   * throws "failed-precondition" if that is not certain.
   */
  readonly tree?:
    | (<T>(
        snapshot: SourceSnapshot,
        call: Call,
        work: (tree: ReadableTree) => Promise<T>,
        isStopped?: boolean,
      ) => Promise<T>)
    | undefined;
  /** Writes a snapshot into an existing empty folder. */
  readonly fill?: ((snapshot: SourceSnapshot, folder: string, call: Call) => Promise<void>) | undefined;
}

/** An unfinished copy on its target: the id that the volume will have, the text of its record, and whether `markCancelled` has marked it. */
export interface StoredCopy {
  readonly id: string;
  readonly record: string;
  readonly isCancelled?: boolean;
}

/** The longest text of a record, in bytes of UTF-8. */
export const maxRecordBytes = 4096;

/** Throws "aborted" unless the caller still has the lease of the copy. */
export type StillHeld = () => Promise<void>;

/** The ability to create volumes with the content of other connections. Every method may be repeated, and interrupted after any step. */
export interface CopyTarget {
  readonly content: "files" | "blocks";
  /** The id of a volume with this name. Pure. */
  idOf(name: string): string;
  /** The finished volume of this request, if it exists. Throws "already-exists" if it has another size or origin. */
  existing(spec: CopySpec, call: Call): Promise<Volume | undefined>;
  /**
   * The error to answer if this snapshot cannot become this volume by this method: "invalid-argument", "failed-precondition", "out-of-range" or
   * "resource-exhausted" (too little space). Undefined if it can. Changes nothing.
   */
  refusal(method: CopyMethod, spec: CopySpec, snapshot: SourceSnapshot, call: Call): Promise<Error | undefined>;
  /** Writes the record, then creates the empty target. If both exist, returns them with the existing record. Throws "failed-precondition" for foreign objects at its name. */
  begin(spec: CopySpec, snapshot: SourceSnapshot, record: string, call: Call): Promise<StoredCopy>;
  /** The target with this id, if it has a record. */
  find(id: string, call: Call): Promise<StoredCopy | undefined>;
  /** Whether `find` would find something; false also if the storage cannot be seen. Absent if that takes no less than `find`. */
  readonly mayHave?: ((id: string, call: Call) => Promise<boolean>) | undefined;
  /** Replaces the record of a target; durable when it resolves. */
  note(id: string, record: string, call: Call): Promise<void>;
  /**
   * Marks a target as cancelled until `drop` or `forget`; durable when it resolves. `note` keeps the mark: a process that becomes the holder
   * writes first and reads then, and a cancellation does the reverse, so that one of them sees the other. Throws "not-found".
   */
  markCancelled(id: string, call: Call): Promise<void>;
  /**
   * Proves that the target holds `snapshot`, and makes it the volume: size, properties, name, share. Returns the volume, also when repeated
   * after an interruption at any step. The record stays until `forget`. Before the target gets its name, in a way that a process which has become
   * the holder can still prevent, calls `stillHeld`, which throws unless the caller still has the lease: it may have been suspended.
   */
  finish(id: string, spec: CopySpec, snapshot: SourceSnapshot, stillHeld: StillHeld, call: Call): Promise<Volume>;
  /** Whether there is a target, or a volume, finished or not, with this id. */
  hasContent(id: string, call: Call): Promise<boolean>;
  /** Removes the target and keeps its record. Throws like `drop`. */
  empty(id: string, call: Call): Promise<void>;
  /** Removes the target, then its record. Throws "failed-precondition" for a finished volume. Succeeds if there is nothing. */
  drop(id: string, call: Call): Promise<void>;
  /** Removes the record of a finished volume. */
  forget(id: string, call: Call): Promise<void>;
  /** All targets that have a record, including finished ones. */
  copies(call: Call): Promise<readonly StoredCopy[]>;
  readonly stream?: StreamTarget | undefined;
  /** The folder of a target, which this process can write to. */
  readonly folder?: ((id: string, call: Call) => Promise<string>) | undefined;
  /** Puts everything in that folder on stable storage. A target that receives streams has them there, or not at all. */
  readonly flush?: ((id: string, call: Call) => Promise<void>) | undefined;
}

/** What a connection's driver can do for copies, as data. */
export interface CopyAbilities {
  readonly copySource: CopySourceFacts | undefined;
  readonly copyTarget: CopyTargetFacts | undefined;
}

type StreamFacts = Pick<StreamSource, "format" | "machine">;

export interface CopySourceFacts extends Pick<CopySource, "content"> {
  readonly stream: StreamFacts | undefined;
  readonly tree: boolean;
  readonly fill: boolean;
}

export interface CopyTargetFacts extends Pick<CopyTarget, "content"> {
  readonly stream: StreamFacts | undefined;
  readonly folder: boolean;
}

/** The abilities of a driver. */
export const copyAbilities = ({
  copySource,
  copyTarget,
}: {
  readonly copySource?: CopySource | undefined;
  readonly copyTarget?: CopyTarget | undefined;
}): CopyAbilities => ({
  copySource: copySource && {
    content: copySource.content,
    stream: copySource.stream,
    tree: copySource.tree !== undefined,
    fill: copySource.fill !== undefined,
  },
  copyTarget: copyTarget && {
    content: copyTarget.content,
    stream: copyTarget.stream,
    folder: copyTarget.folder !== undefined,
  },
});

const base32 = "abcdefghijklmnopqrstuvwxyz234567";

/** The name of a copy on both storages: 16 characters of base32 (80 bits) of the SHA-256 of the target's CSI volume id. */
export function copyKey(target: string): string {
  const digest = createHash("sha256").update(target).digest();
  let bits = 0n;
  for (const byte of digest.subarray(0, 10)) bits = (bits << 8n) | BigInt(byte);
  return Array.from({ length: 16 }, (_, at) => base32[Number((bits >> BigInt(75 - 5 * at)) & 31n)]).join("");
}
