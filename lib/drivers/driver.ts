import type { Access, Protocol } from "../core/access.ts";
import type { CapacityRange } from "../core/bytes.ts";
import type { Call } from "../core/call.ts";
import type { Finding, VolumeFindings } from "../health/finding.ts";

/** Text that travels with a volume (`volume_context`) or comes with a class (`parameters`). */
export type Context = Readonly<Record<string, string>>;

/** Where the content of a new volume comes from; `id` is the real driver's id on the same connection. */
export interface Source {
  readonly kind: "volume" | "snapshot";
  readonly id: string;
}

/** A volume to be made. Checked by the router: the range is possible, the capabilities fit the driver's access. */
export interface VolumeSpec {
  /** The caller's name: any Unicode text up to 128 bytes. The driver derives its own id from it. */
  readonly name: string;
  readonly range: CapacityRange;
  readonly parameters: Context;
  readonly source: Source | undefined;
  /** Properties that may be changed later (a VolumeAttributesClass); empty for a driver that cannot change any. */
  readonly mutable: Context;
}

/** What a driver finds under a name: a volume, or what an interrupted `create` left, which `delete` of the id removes. */
export type FoundVolume =
  | { readonly kind: "volume"; readonly volume: Volume }
  | { readonly kind: "unfinished"; readonly id: string };

/** A volume that exists. */
export interface Volume {
  readonly id: string;
  /** Size in bytes; 0 when the driver cannot tell. */
  readonly bytes: bigint;
  readonly context: Context;
  readonly source: Source | undefined;
}

/** A snapshot that exists. */
export interface Snapshot {
  readonly id: string;
  readonly volumeId: string;
  /** The smallest volume in bytes that can be made from it; 0 when unknown. */
  readonly bytes: bigint;
  readonly createdAt: Date;
  readonly ready: boolean;
  /** The group snapshot that it was taken with, by this driver's id. */
  readonly group?: string | undefined;
}

/** Snapshots of several volumes, taken at one moment. */
export interface GroupSnapshot {
  readonly id: string;
  readonly snapshots: readonly Snapshot[];
  readonly createdAt: Date;
  readonly ready: boolean;
}

/** One part of a listing; `next` is this driver's token for the following part. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly next: string | undefined;
}

/** Which part of a listing is wanted. */
export interface PageRequest {
  /** The token of an earlier page; undefined for the first. A token that is not ours throws "aborted" (CSI ListVolumes). */
  readonly token: string | undefined;
  /** The most items to return, at least 1. */
  readonly max: number;
}

/**
 * One connection's storage. Opening a driver does no I/O. Every operation may be repeated, and interrupted after any step.
 * An ability is the presence of a member; what belongs together is one member.
 */
export interface Driver {
  /** Undefined if volumes name their own protocol. */
  readonly protocol: Protocol | undefined;
  readonly access: Access;

  /**
   * Makes the volume or returns the equal one that exists. "already-exists" when name fits but size or source do not. While
   * anything of a failed creation is left, its error is no final one (core/errors.ts, isFinal), or nobody would ever delete it.
   */
  create(spec: VolumeSpec, call: Call): Promise<Volume>;
  /** Success when the volume is gone or never was. */
  delete(id: string, call: Call): Promise<void>;

  /** Looking up by the name that the caller chose: needed by members of a group. */
  readonly names?: LookupAbility | undefined;
  readonly reading?: ReadAbility | undefined;
  readonly expand?: ExpandAbility | undefined;
  readonly snapshots?: SnapshotAbility | undefined;
  /** Which kinds of source `create` accepts. */
  readonly clones?: { readonly from: readonly Source["kind"][] } | undefined;
  readonly capacity?: CapacityAbility | undefined;
  readonly inventory?: ListAbility | undefined;
  readonly modify?: ModifyAbility | undefined;
  readonly health?: HealthAbility | undefined;
  readonly groupSnapshots?: GroupSnapshotAbility | undefined;
  readonly inline?: InlineAbility | undefined;
  /** Is the system reachable, the credentials valid, the tools present? Throws what is wrong. Changes nothing. */
  check?(call: Call): Promise<void>;
  close?(): Promise<void>;
}

/** The ability to tell what stands under a name. */
export interface LookupAbility {
  /** The id that `create` gives to this name. Pure. */
  idOf(name: string): string;
  /** What `create` made or began under this name; cheap, used before a group chooses. */
  find(name: string, call: Call): Promise<FoundVolume | undefined>;
}

/** The ability to read one volume (CSI ControllerGetVolume, ValidateVolumeCapabilities). */
export interface ReadAbility {
  /** Throws "not-found". */
  get(id: string, call: Call): Promise<Volume>;
}

/** What an expansion came to: the size in bytes, and whether the node has work to do. */
export interface ExpansionResult {
  readonly bytes: bigint;
  readonly onNode: boolean;
}

/** The ability to make volumes larger. */
export interface ExpandAbility {
  /** Grows to at least `range.required`; a volume never shrinks. Throws "not-found" and "out-of-range". */
  expand(id: string, range: CapacityRange, call: Call): Promise<ExpansionResult>;
}

/** The ability to take snapshots. */
export interface SnapshotAbility {
  /** As Driver.create; "already-exists" when the name is taken by a snapshot of another volume of this connection. */
  create(name: string, volumeId: string, parameters: Context, call: Call): Promise<Snapshot>;
  /** Success when the snapshot is gone or never was. */
  delete(id: string, call: Call): Promise<void>;
  /** Throws "not-found". */
  get(id: string, call: Call): Promise<Snapshot>;
  /** Stable order. With `volumeId` only that volume's. */
  list(filter: { readonly volumeId: string | undefined }, page: PageRequest, call: Call): Promise<Page<Snapshot>>;
}

/** The ability to tell how much is free. */
export interface CapacityAbility {
  /** Bytes that a new volume may take. */
  available(parameters: Context, call: Call): Promise<bigint>;
}

/** The ability to list volumes. */
export interface ListAbility {
  /** Stable order, whole volumes only: nothing half-made. */
  list(page: PageRequest, call: Call): Promise<Page<Volume>>;
}

/** What one look at a whole storage has found. */
export interface StorageFindings {
  /** About the storage: each is true of all its volumes. */
  readonly storage: readonly Finding[];
  /** About single volumes, by this driver's ids. */
  readonly volumes: VolumeFindings;
  /** The volume context of one of the volumes, by which a node finds the storage; undefined when there is none. */
  readonly example: Context | undefined;
}

/** The ability to tell what is wrong with the storage and with volumes on it. */
export interface HealthAbility {
  /**
   * Looks at everything, in a number of requests that does not grow with that of the volumes. Throws when it cannot be looked
   * at: that is no finding.
   */
  look(call: Call): Promise<StorageFindings>;
  /**
   * Makes anew what leads to a volume and has gone, such as the target of a host that began anew without its configuration. Changes
   * nothing where it is there. Absent where it cannot be done.
   */
  readonly restore?: ((id: string, call: Call) => Promise<void>) | undefined;
}

/** The ability to change properties of a volume in use (CSI ControllerModifyVolume). */
export interface ModifyAbility {
  /** Changes all of them or none. Throws "not-found", and "invalid-argument" for one that may not be changed or not to this. */
  modify(id: string, properties: Context, call: Call): Promise<void>;
}

/** The ability to take snapshots of several volumes at one moment (CSI GroupController). */
export interface GroupSnapshotAbility {
  /**
   * All or none; each snapshot can then be used by itself, and names the group. As Driver.create. Throws "failed-precondition"
   * for volumes that cannot be taken at one moment.
   */
  create(name: string, volumeIds: readonly string[], parameters: Context, call: Call): Promise<GroupSnapshot>;
  /** Success when it is gone or never was. `snapshotIds` are those that the caller knows of. */
  delete(id: string, snapshotIds: readonly string[], call: Call): Promise<void>;
  /** Throws "not-found". */
  get(id: string, snapshotIds: readonly string[], call: Call): Promise<GroupSnapshot>;
}

/** A volume that was made for a pod. */
export interface InlineVolume {
  /** What mount(8) mounts. */
  readonly fsType: string;
  readonly source: string;
  /** What tells it from every other volume, also from a later one of the same name. */
  readonly identity: string;
}

/** The ability to make volumes that live with their pod, on the node itself (CSI ephemeral inline volumes of Kubernetes). */
export interface InlineAbility {
  /**
   * Makes the volume, or finds it as an earlier call left it. `begin` is called with its source once nothing is wrong with what
   * the pod asks for, before anything is made. Throws "invalid-argument" for attributes that a pod may not have.
   */
  make(id: string, attributes: Context, begin: (source: string) => Promise<void>, call: Call): Promise<InlineVolume>;
  /**
   * Removes it with its content; success when it is gone or never was. Throws "failed-precondition" for one that was not made
   * for this id, or is not the one of this `identity`, where that is known.
   */
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
  | "modify"
  | "health"
  | "groupSnapshots"
  | "inline";
