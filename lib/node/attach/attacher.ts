import type { Access, Capability } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import type { Code } from "../../core/errors.ts";
import type { Finding } from "../../health/finding.ts";
import type { Answers } from "../../io/answers.ts";
import type { Argv, CommandRunner } from "../../io/runner.ts";
import type { MountErrorPatterns } from "../mount/mount-errors.ts";
import type { MountTable } from "../mount/mount-table.ts";
import type { Context } from "../requests.ts";

/** A folder that is there already and is bind mounted. */
export interface AttachedFolder {
  readonly kind: "folder";
  /** Its real path. */
  readonly path: string;
}

/** A file system of a server, which mount(8) mounts. */
export interface AttachedShare {
  readonly kind: "share";
  /** The type that mount(8) is given. */
  readonly fsType: string;
  /** "server:/folder", "//server/share". */
  readonly source: string;
  /** Other sources of the same content, tried in this order when the first does not answer. */
  readonly alternatives?: readonly string[];
  /** Options of the mount besides those that a bind mount can carry; never a secret. */
  readonly options: readonly string[];
  /** It takes the host's mount(8), because its helper is there only. */
  readonly onHost?: boolean;
  /** For mount(8) alone, never kept: secrets go to its helper through its stdin. */
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Words that must not be printed. */
  readonly secret?: readonly string[];
  /** What its helper complains about, besides what mount(8) itself does. */
  readonly errorPatterns?: MountErrorPatterns;
  /** Mounts it in place of mount(8). */
  readonly program?: MountProgram;
}

/** A program that mounts one file system and goes on in the background as its server (fuse(8)). */
export interface MountProgram {
  /** Its words before the mount point, for a mount with these options. */
  argv(options: readonly string[]): Argv;
  /** What exit codes mean about which it says nothing. */
  readonly exits: Readonly<Record<number, MountFailure>>;
}

/** What a refused mount means. */
export interface MountFailure {
  readonly code: Code;
  readonly text: string;
}

/** A block device that this node sees. */
export interface AttachedDevice {
  readonly kind: "device";
  /** The device file to be used, in csimux's own view: "/dev/sda", "/dev/mapper/mpatha". */
  readonly path: string;
  /** Its number as "major:minor", by which mounts of it are known again. */
  readonly number: string;
  /** What is the same for the same volume wherever and whenever it is attached: WWID, NGUID, dataset name. */
  readonly identity: string;
  /**
   * What the kernel says of it, and of the paths that it is made of, for as long as it is this volume: attributes below /sys and
   * their texts. A device name and its number are given to another disk once the first one is gone (sysfs(5)).
   */
  readonly proof: Readonly<Record<string, string>>;
}

/** What a volume is on this node once it is attached. */
export type Attached = AttachedFolder | AttachedShare | AttachedDevice;

/** What an attacher must know to undo what it did. Never a secret: it is kept in a file. */
export type Notes = Readonly<Record<string, string>>;

/** Adds to the notes of the volume and has them on disk when it resolves; an undefined value strikes a key out. */
export type SaveNotes = (notes: Readonly<Record<string, string | undefined>>) => Promise<void>;

/** A volume to be attached. Secrets are in the call. */
export interface AttachRequest {
  readonly volumeId: string;
  readonly context: Context;
  /** What ControllerPublishVolume answered; empty where the volume is not published by a controller. */
  readonly publishContext: Context;
  readonly capability: Capability;
  /** The access mode only reads: nothing on the volume may be changed, not even by replaying a journal. */
  readonly readonly: boolean;
  /** What an earlier, perhaps interrupted call noted; empty at first. */
  readonly notes: Notes;
  /** The mounts when the call began. */
  readonly table: MountTable;
}

/** A volume that is attached, or was about to be, as it was recorded. */
export interface Attachment {
  readonly volumeId: string;
  readonly context: Context;
  readonly notes: Notes;
}

/**
 * The node's half of a protocol. Everything may be repeated, and interrupted after any step. Every wait ends with the call.
 * An attacher that has `detach` is called with its record on disk already; whatever else detaching needs is noted before acting.
 */
export interface Attacher {
  /** What volumes of this protocol can be used for. */
  readonly access: Access;
  /**
   * What may be worked on for one volume at a time although several volumes share it, such as a target. Others wait for it
   * while they are attached, detached or grown. Absent, or undefined, where volumes share nothing.
   */
  readonly lockOf?: (context: Context) => string | undefined;
  /**
   * Throws "invalid-argument" for a context that `attach` and `detach` cannot use; asks nobody. Absent where nothing has to be
   * detached: a record is written only of what can be.
   */
  readonly check?: (context: Context, volumeId: string) => void;
  /** Throws "invalid-argument" for an incomplete context and "not-found" for a volume that is not there. */
  attach(wanted: AttachRequest, note: SaveNotes, call: Call): Promise<Attached>;
  /**
   * Undoes attach; nothing of the volume is mounted any more. `others` are the recorded attachments of the same protocol on
   * this node: what one of them needs stays. Absent when there is nothing to undo.
   */
  readonly detach?: (attachment: Attachment, others: readonly Attachment[], call: Call) => Promise<void>;
  /** The storage that a volume is on; throws "invalid-argument" for an incomplete context. Absent for what is on this node. */
  readonly storageOf?: (context: Context) => StorageAddresses;
  /** What is wrong with the way to an attached volume, by what the kernel shows; asks nobody. Absent where there is none. */
  readonly health?: (attachment: Attachment) => Promise<readonly Finding[]>;
  /**
   * Opens again the ways to an attached volume that are lost, such as a session that the network was gone from for too long,
   * as far as that takes no secrets of a call. Says what it opened; nothing where all is well. Absent where nothing is held open.
   */
  readonly restore?: (attachment: Attachment, call: Call) => Promise<readonly string[]>;
  /**
   * Makes the node see that a volume grew, and waits until it has `least` bytes, if given. Returns what it has. Throws
   * "unavailable" when it does not get there in time. Absent when nothing on the node depends on the size.
   */
  readonly grow?: (attachment: Attachment, least: bigint | undefined, call: Call) => Promise<bigint>;
}

/** A storage as nodes reach it. */
export interface StorageAddresses {
  /** The protocol and the address, as in "nfs nas.example.org". */
  readonly name: string;
  /** Addresses of which one must be open, by TCP; empty where nobody can tell. */
  readonly addresses: readonly { readonly host: string; readonly port: number }[];
}

/** What attachers work with. */
export interface AttacherPorts {
  /** Programs of csimux's own container. */
  readonly runner: CommandRunner;
  /** The same programs where the host's own are needed, because their daemon's state is the host's; paths are the host's. */
  readonly host: CommandRunner;
  /** Folders below which volumes that are folders of this node may lie; undefined: anywhere. */
  readonly hostFolders: () => Promise<readonly string[] | undefined>;
  /** Datasets below which volumes on pools of this node may lie; undefined: any. */
  readonly hostDatasets: () => Promise<readonly string[] | undefined>;
  /** Shares are mounted by the host's mount(8), whose helpers live on with the host, such as rpc.statd(8) of NFS 3. */
  readonly hostMounts: boolean;
  /** The folder of device files, `/dev` outside tests. */
  readonly devices: string;
  /** `/sys` and `/proc` outside tests. */
  readonly sys: string;
  readonly proc: string;
  /** Where the host's root is seen from here: the folder that `host` runs in. */
  readonly hostRoot: string;
  /** Whether a server can be reached at all. */
  readonly answers: Answers;
  /** A folder for what csimux opened on this node; must survive restarts. */
  readonly opened: string;
}
