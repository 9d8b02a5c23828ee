import type { Access, Protocol } from "../core/access.ts";
import type { CapacityRange } from "../core/bytes.ts";
import type { Call } from "../core/call.ts";
import type { Finding, VolumeFindings } from "../health/finding.ts";
import type { CopySource, CopyTarget } from "./copying.ts";
import type { KeptAbility } from "./kept.ts";
import type { Candidate, Tenant } from "./tenure.ts";
import type { Context, Source, Volume, VolumeSpec } from "./volume.ts";

export type { Context, Source, Volume, VolumeSpec } from "./volume.ts";

/** What exists under a name: a volume, or the rest of an interrupted `create`, which `discard` of the id removes. */
export type FoundVolume =
  | { readonly kind: "volume"; readonly volume: Volume }
  | { readonly kind: "unfinished"; readonly id: string };

/** A snapshot that exists. */
export interface Snapshot {
  readonly id: string;
  readonly volumeId: string;
  /** The smallest volume in bytes that can be created from it; 0 if unknown. */
  readonly bytes: bigint;
  readonly createdAt: Date;
  readonly ready: boolean;
  /** Its group snapshot, by this driver's id. */
  readonly group?: string | undefined;
}

/** Snapshots of several volumes, taken at one moment. */
export interface GroupSnapshot {
  readonly id: string;
  readonly snapshots: readonly Snapshot[];
  readonly createdAt: Date;
  readonly ready: boolean;
}

/** One page of a listing; `next` is this driver's token for the next one. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | undefined;
}

/** The requested page of a listing. */
export interface PageRequest {
  /** The token of an earlier page; undefined for the first. A foreign token throws "aborted" (CSI ListVolumes). */
  readonly token: string | undefined;
  /** The most items to return, at least 1. */
  readonly max: number;
}

/**
 * One connection's storage. Opening a driver does no I/O. Every operation may be repeated, and interrupted after any step.
 * A driver has an ability if the member is present.
 */
export interface Driver {
  /** Undefined if volumes name their own protocol. */
  readonly protocol: Protocol | undefined;
  readonly access: Access;

  /**
   * Creates the volume or returns the equal one that exists. Throws "already-exists" for one of another size or source. While
   * anything of a failed creation is left, its error must not be final (core/errors.ts, isFinal), or it would never be deleted.
   */
  create(spec: VolumeSpec, call: Call): Promise<Volume>;
  /** Succeeds if the volume does not exist. */
  delete(id: string, call: Call): Promise<void>;

  /** Needed by members of a group. */
  readonly names?: LookupAbility | undefined;
  readonly reading?: ReadAbility | undefined;
  readonly expand?: ExpandAbility | undefined;
  readonly snapshots?: SnapshotAbility | undefined;
  /** Which kinds of source `create` accepts. */
  readonly clones?: { readonly from: readonly Source["kind"][] } | undefined;
  readonly capacity?: CapacityAbility | undefined;
  readonly inventory?: ListAbility | undefined;
  readonly kept?: KeptAbility | undefined;
  readonly modify?: ModifyAbility | undefined;
  readonly health?: HealthAbility | undefined;
  readonly groupSnapshots?: GroupSnapshotAbility | undefined;
  readonly snapshotMetadata?: SnapshotMetadataAbility | undefined;
  readonly inline?: InlineAbility | undefined;
  readonly adoption?: AdoptAbility | undefined;
  readonly retention?: RetentionAbility | undefined;
  readonly copySource?: CopySource | undefined;
  readonly copyTarget?: CopyTarget | undefined;
  /** Checks that the system is reachable, the credentials are valid and the tools exist. Throws what is wrong. Changes nothing. */
  check?(call: Call): Promise<void>;
  close?(): Promise<void>;
}

/** The ability to look up volumes by the name that the caller chose. */
export interface LookupAbility {
  /** The id of a volume with this name. Pure. */
  idOf(name: string): string;
  /** What `create` has created or begun under this name. Cheap: a group asks every member. */
  find(name: string, call: Call): Promise<FoundVolume | undefined>;
  /** Removes the rest of an interrupted `create`. Throws "aborted" if another process has finished that volume meanwhile. */
  discard(id: string, call: Call): Promise<void>;
}

/** The ability to read one volume (CSI ControllerGetVolume, ValidateVolumeCapabilities). */
export interface ReadAbility {
  /** Throws "not-found". */
  get(id: string, call: Call): Promise<Volume>;
}

/** The result of an expansion: the size in bytes, and whether the node has work to do. */
export interface ExpansionResult {
  readonly bytes: bigint;
  readonly onNode: boolean;
}

/** The ability to make volumes larger. */
export interface ExpandAbility {
  /** Grows to at least `range.required`; a volume never shrinks. Throws "not-found" and "out-of-range". */
  expand(id: string, range: CapacityRange, call: Call): Promise<ExpansionResult>;
}

/** The volume of the requested snapshots; undefined: of any. */
export interface VolumeFilter {
  readonly volumeId: string | undefined;
}

/** The ability to take snapshots. */
export interface SnapshotAbility {
  /** Like Driver.create. Throws "already-exists" if the name belongs to a snapshot of another volume of this connection. */
  create(name: string, volumeId: string, parameters: Context, call: Call): Promise<Snapshot>;
  /** Succeeds if the snapshot does not exist. */
  delete(id: string, call: Call): Promise<void>;
  /** Throws "not-found". */
  get(id: string, call: Call): Promise<Snapshot>;
  /** In a stable order. With `volumeId`, only those of that volume. */
  list(filter: VolumeFilter, page: PageRequest, call: Call): Promise<Page<Snapshot>>;
}

/** The ability to report free space. */
export interface CapacityAbility {
  /** Bytes that a new volume may take. */
  available(parameters: Context, call: Call): Promise<bigint>;
}

/** Storage that is, or with marks would be, a volume. */
export interface AdoptedVolume extends Volume {
  /** Whether it has the marks of a volume of this connection. */
  readonly marked: boolean;
}

/** The ability to turn storage that a person made into a volume. */
export interface AdoptAbility {
  /**
   * The volume in an object of the storage system: a volume's id, or the object's own name, such as that of a dataset. With `mark`, sets the
   * marks of a volume on an object without any, and changes nothing else; a volume loses its claim (Tenure), which cannot have it again then.
   * Without it, changes nothing. Throws "not-found", and "failed-precondition" for an object that has the marks of another connection, that nodes cannot reach, or that cannot be a volume.
   */
  adopt(object: string, mark: boolean, call: Call): Promise<AdoptedVolume>;
}

/** The ability to keep volumes of a class that no PersistentVolume needs any more. */
export interface RetentionAbility {
  /** Records that a volume was given up, if it belongs to a claim. Returns whether it does. */
  release(id: string, call: Call): Promise<boolean>;
  /** Absent where it cannot be proved that no one else has or gets such a volume. */
  readonly claims?: ClaimsAbility | undefined;
}

/** A finished volume with what decides whether a claim gets it; see Candidate. */
export interface ClaimedVolume extends Pick<Candidate, "tenure" | "identity" | "instance"> {
  readonly volume: Volume;
}

/** The ability to give a volume to its claim again. */
export interface ClaimsAbility {
  /** All finished volumes of a claim. Throws "failed-precondition" for a connection without an `instance_id`. */
  ofClaim(claim: string, call: Call): Promise<readonly ClaimedVolume[]>;
  /**
   * Gives a volume that was given up to this tenant, or returns it if it has it already. Throws "aborted" if it is not free any more, and
   * "failed-precondition" while a node uses it; then nothing was changed.
   */
  take(id: string, tenant: Tenant, call: Call): Promise<Volume>;
  /** Undoes `take`: records that the volume was given up, if this tenant has it. */
  giveBack(id: string, tenant: Tenant, call: Call): Promise<void>;
  /** Throws "failed-precondition" while a node uses the volume. Changes nothing. */
  unused(id: string, call: Call): Promise<void>;
}

/** The ability to list volumes. */
export interface ListAbility {
  /** In a stable order; only finished volumes. */
  list(page: PageRequest, call: Call): Promise<Page<Volume>>;
}

/** The findings of one check of a whole storage system. */
export interface StorageFindings {
  /** About the storage system, and so about all its volumes. */
  readonly storage: readonly Finding[];
  /** About single volumes, by this driver's ids. */
  readonly volumes: VolumeFindings;
  /** The volume context of one of the volumes, with which a node finds the storage system; undefined if there are none. */
  readonly example: Context | undefined;
}

/** The ability to check the health of the storage system and its volumes. */
export interface HealthAbility {
  /** Checks everything, in a number of requests that does not grow with the volumes. Throws if it cannot be checked. */
  look(call: Call): Promise<StorageFindings>;
  /** Restores the missing export or target of a volume; changes nothing if it exists. Absent if that is impossible. */
  readonly restore?: ((id: string, call: Call) => Promise<void>) | undefined;
}

/** The ability to change properties of a volume in use (CSI ControllerModifyVolume). */
export interface ModifyAbility {
  /**
   * Throws "not-found", and "invalid-argument" for a property or value that is not allowed, with nothing changed. After another failure some
   * may be changed; a repeat changes all.
   */
  modify(id: string, properties: Context, call: Call): Promise<void>;
}

/** The ability to take snapshots of several volumes at one moment (CSI GroupController). */
export interface GroupSnapshotAbility {
  /** Takes all or none; each names the group and can be used by itself. Throws "failed-precondition" if not at one moment. */
  create(name: string, volumeIds: readonly string[], parameters: Context, call: Call): Promise<GroupSnapshot>;
  /** Succeeds if it does not exist. `snapshotIds` are those that the caller knows. */
  delete(id: string, snapshotIds: readonly string[], call: Call): Promise<void>;
  /** Throws "not-found". */
  get(id: string, snapshotIds: readonly string[], call: Call): Promise<GroupSnapshot>;
}

/** Bytes of a volume. */
export interface BlockRange {
  readonly offset: bigint;
  /** More than 0. */
  readonly bytes: bigint;
}

/** A part of a list of ranges. */
export interface BlockRanges {
  /** The size of the snapshot in bytes. */
  readonly capacity: bigint;
  readonly ranges: readonly BlockRange[];
}

/** The ability to tell which blocks of a snapshot hold data or have changed (CSI SnapshotMetadata). */
export interface SnapshotMetadataAbility {
  /**
   * The ranges of a snapshot that hold data or, with `base`, those that may differ from that earlier snapshot of its volume: with ascending
   * offsets, without overlap, none that ends before `from`. The first part comes after all checks. Throws "not-found"; "invalid-argument" for a
   * base that is not an earlier one of the volume; "out-of-range"; "failed-precondition" where a full backup is needed instead.
   */
  ranges(snapshotId: string, base: string | undefined, from: bigint, call: Call): AsyncIterable<BlockRanges>;
}

/** A volume that was created for a pod. */
export interface InlineVolume {
  /** The type for mount(8). */
  readonly fsType: string;
  readonly source: string;
  /** Distinguishes it from every other volume, even a later one of the same name. */
  readonly identity: string;
}

/** The ability to create volumes on the node itself that live with their pod (CSI ephemeral inline volumes of Kubernetes). */
export interface InlineAbility {
  /**
   * Creates the volume, or finds it as an earlier call left it. Calls `begin` with its source once the request is valid, before anything
   * is created. Throws "invalid-argument" for attributes that a pod may not have.
   */
  make(id: string, attributes: Context, begin: (source: string) => Promise<void>, call: Call): Promise<InlineVolume>;
  /** The identity of the volume of this id if that is its source, and it was provably made for this id; undefined otherwise. */
  identityOf(id: string, source: string, call: Call): Promise<string | undefined>;
  /** Removes it with its content, if it exists. Throws "failed-precondition" for one not created for this id, or of another `identity`. */
  remove(id: string, identity: string | undefined, call: Call): Promise<void>;
}

/** The members that a driver may lack. */
export type Ability =
  | "names"
  | "reading"
  | "expand"
  | "snapshots"
  | "clones"
  | "capacity"
  | "inventory"
  | "kept"
  | "modify"
  | "health"
  | "groupSnapshots"
  | "snapshotMetadata"
  | "inline"
  | "retention"
  | "copySource"
  | "copyTarget";
