import type { SourceSnapshot, StreamEnd } from "../copying.ts";
import { shownValue } from "./properties.ts";
import type { Entries, Entry, PropertyQuery } from "./zfs.ts";

// Streams of snapshots, and what keeps one from being sent or received.

/** The full name of the snapshot that a stream begins at. */
export type StreamBase = string;

/** What is held, and an estimate in bytes of its stream; 0 if unknown. */
export interface Held {
  readonly entries: Entries;
  readonly toSend: bigint;
}

/** `made`: this call took the snapshot. One that existed is not held. */
export interface Taken extends Held {
  readonly made: boolean;
}

/** A snapshot to hold, the values that it gets, and the tag of the hold. */
type Holding = [
  ...[snapshot: string, values: Readonly<Record<string, string>>, tag: string],
  ...[query: PropertyQuery, base: StreamBase | undefined, signal: AbortSignal],
];

/** Streams of snapshots, and the holds that protect them, on one host. Throws like `Zfs`. */
export interface ZfsStreams {
  readonly machine: string;
  /** The program that sends a snapshot. `basic`: as every pool can receive it. `tells`: it reports its progress. */
  send(snapshot: string, base: StreamBase | undefined, basic: boolean, tells: boolean): StreamEnd;
  /** The program that sends the rest of an interrupted stream. */
  resume(token: string, tells: boolean): StreamEnd;
  /** The program that receives a new dataset, or the rest of one, as this snapshot; the values are set before the content arrives. */
  receive(snapshot: string, values: Readonly<Record<string, string>>): StreamEnd;
  /** The program that receives what was changed since an earlier snapshot, if the dataset itself has this value of a property. */
  receiveLater(snapshot: string, property: string, value: string): StreamEnd;
  /** Takes a snapshot and holds it; one that exists is read, and left as it is. */
  take(...what: Holding): Promise<Taken>;
  /** Sets values on a snapshot, then holds it. */
  hold(...what: Holding): Promise<Held>;
  /** Gives up the hold with this tag, and no other. Succeeds if there is none. */
  release(snapshot: string, tag: string, signal: AbortSignal): Promise<void>;
  /** The tags of all holds on these snapshots. */
  tags(names: readonly string[], signal: AbortSignal): Promise<readonly Record<"snapshot" | "tag", string>[]>;
  /** The version of the kernel's ZFS, such as "2.2.9-1"; undefined if unknown. */
  version(signal: AbortSignal): Promise<string | undefined>;
  /** Whether a program receives into a dataset. */
  isReceiving(dataset: string, signal: AbortSignal): Promise<boolean>;
  /** Ends the programs that receive into a dataset. Throws "busy" if they do not end. */
  stop(dataset: string, signal: AbortSignal): Promise<void>;
  /** Discards the part of a stream that a dataset keeps. Succeeds if there is none. */
  abort(dataset: string, signal: AbortSignal): Promise<void>;
  /** The guid of the snapshot that a token belongs to; empty if unknown. */
  guidOf(token: string, signal: AbortSignal): Promise<string>;
}

/** The first releases in which sending decrypted content does not use a key that it has given up (openzfs issue 12014, PR 17340). */
const repaired = [
  [2, 2, 8],
  [2, 3, 3],
] as const;

/** The last number of versions under development, of which nothing says what they contain (OpenZFS, META). */
const underDevelopment = 99;

/** Whether a version of the kernel's ZFS, such as "2.2.9-1", sends encrypted content without that fault. Undefined counts as no. */
function sendsEncrypted(version: string | undefined): boolean {
  const [, ...parts] = /^(\d+)\.(\d+)\.(\d+)/.exec(version ?? "") ?? [];
  const [major = 0, minor = 0, patch = 0] = parts.map(Number);
  if (major > 2 || (major === 2 && minor > 3)) return true;
  const least = repaired.find(each => each[0] === major && each[1] === minor)?.[2];
  return least !== undefined && patch >= least && patch < underDevelopment;
}

/** Why the content of a dataset must not be sent, in words; undefined if it may. `version`: of the kernel's ZFS. */
export function whyNotSent(entry: Entry, version: string | undefined): string | undefined {
  if (shownValue(entry, "keystatus") === "unavailable") return "its key is not loaded; load it (zfs load-key)";
  const encryption = shownValue(entry, "encryption");
  if (encryption === undefined || encryption === "off" || sendsEncrypted(version)) return undefined;
  return (
    `it is encrypted, and OpenZFS ${version ?? "of an unknown version"} can damage such streams (issue 12014);` +
    " upgrade to 2.2.8, 2.3.3 or 2.4"
  );
}

/** The properties of the dataset above a target that decide what it can receive. */
export const receivingProperties = [
  ...["type", "available", "encryption", "keystatus", "casesensitivity", "normalization", "utf8only", "acltype"],
] as const;

/** Properties that travel within the content of a file system: a volume cannot have another value. */
const within = ["casesensitivity", "normalization", "utf8only"] as const;

/**
 * Why a volume with these properties cannot be a copy of the snapshot, in words; undefined if it can. `above` is the nearest dataset that
 * exists above it, whose properties it inherits.
 */
export function whyNotReceived(
  { traits }: Pick<SourceSnapshot, "traits">,
  wanted: Readonly<Record<string, string>>,
  above: Entry | undefined,
): string | undefined {
  const [key, asked] = [shownValue(above, "keystatus"), wanted["encryption"]];
  if (key === "unavailable") return `the key of ${above?.name} is not loaded; load it (zfs load-key)`;
  const encrypted = (shownValue(above, "encryption") ?? "off") !== "off";
  if (asked !== undefined && (asked !== "off") !== encrypted)
    return `the class asks for encryption=${asked}, which a received volume takes from ${above?.name ?? "its parent"}`;
  if (traits.blockBytes > 0n) return undefined;
  const expected = (name: string): string | undefined => wanted[name] ?? shownValue(above, name);
  for (const name of within) {
    const [here, there] = [expected(name), traits.fixed[name]];
    if (here !== undefined && there !== undefined && here !== there)
      return `the source has ${name}=${there}, and volumes of this connection have ${name}=${here}`;
  }
  if (traits.fixed["acltype"] === "nfsv4" && expected("acltype") !== "nfsv4")
    return `the source has NFSv4 access control lists (acltype=nfsv4), and ${above?.name ?? "this ZFS"} does not`;
  return undefined;
}

/** The space in bytes that a stream needs: its estimate and a twentieth; or a reservation, if that is more. */
export function spaceFor({ toSend }: Pick<SourceSnapshot, "toSend">, reserved: bigint): bigint {
  const estimated = toSend + toSend / 20n;
  return estimated > reserved ? estimated : reserved;
}
