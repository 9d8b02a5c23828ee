import type { Access } from "../core/access.ts";
import type { CapacityRange } from "../core/bytes.ts";
import type { Call } from "../core/call.ts";

/** Text that travels with a volume (`volume_context`) or comes with a class (`parameters`). */
export type Context = Readonly<Record<string, string>>;

/** How nodes reach a volume; the value of `node_attach_driver` in the volume context. */
export type Protocol =
  | "nfs"
  | "smb"
  | "lustre"
  | "iscsi"
  | "nvmeof"
  | "hostpath"
  | "zfs-local"
  | "objectivefs"
  | "oneclient";

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
}

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
  readonly protocol: Protocol;
  readonly access: Access;

  /**
   * Makes the volume or returns the equal one that exists. "already-exists" when name fits but size or source do not. While
   * anything of a failed creation is left, its error is no final one (core/errors.ts, isFinal), or nobody would ever delete it.
   */
  create(spec: VolumeSpec, call: Call): Promise<Volume>;
  /** Success when the volume is gone or never was. */
  delete(id: string, call: Call): Promise<void>;
  /** Throws "not-found". */
  get(id: string, call: Call): Promise<Volume>;
  /** The volume that `create` made under this name, if there is one; cheap, used before a group chooses. */
  find(name: string, call: Call): Promise<Volume | undefined>;
  /** The id under which an interrupted `create` of this name left something that is no volume yet; deleting the id removes it. */
  leftover(name: string, call: Call): Promise<string | undefined>;

  readonly expand?: {
    /** Grows to at least `range.required`; returns the size in bytes and whether the node has work to do. */
    expand(id: string, range: CapacityRange, call: Call): Promise<{ readonly bytes: bigint; readonly onNode: boolean }>;
  };
  readonly snapshots?: {
    /** As `create` above; "already-exists" when the name is taken by a snapshot of another volume of this connection. */
    create(name: string, volumeId: string, parameters: Context, call: Call): Promise<Snapshot>;
    /** Success when the snapshot is gone or never was. */
    delete(id: string, call: Call): Promise<void>;
    /** Throws "not-found". */
    get(id: string, call: Call): Promise<Snapshot>;
    /** Stable order. With `volumeId` only that volume's. */
    list(filter: { readonly volumeId: string | undefined }, page: PageRequest, call: Call): Promise<Page<Snapshot>>;
  };
  /** Which kinds of source `create` accepts. */
  readonly clones?: { readonly from: readonly Source["kind"][] };
  readonly capacity?: {
    /** Bytes that a new volume may take. */
    available(parameters: Context, call: Call): Promise<bigint>;
  };
  readonly inventory?: {
    /** Stable order, whole volumes only: nothing half-made. */
    list(page: PageRequest, call: Call): Promise<Page<Volume>>;
  };
  /** The volumes exist only on the node this process runs on (topology type "node" pins them there). */
  readonly local?: true;
  /** Is the system reachable, the credentials valid, the tools present? Throws what is wrong. Changes nothing. */
  check?(call: Call): Promise<void>;
  close?(): Promise<void>;
}

/** The members that a driver may lack. */
export type Ability = "expand" | "snapshots" | "clones" | "capacity" | "inventory";
