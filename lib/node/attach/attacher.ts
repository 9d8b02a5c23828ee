// lib/node/attach: the node's half of each protocol. attacher.ts is the interface, attachers.ts the table of protocols,
// context.ts reads what several protocols have in a volume's context. A protocol of one file is here; iSCSI and NVMe
// have folders of their own.

import type { Access, Capability } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import type { Finding } from "../../health/finding.ts";
import type { Answers } from "../../io/dial.ts";
import type { Argv, CommandRunner } from "../../io/runner.ts";
import type { MountErrorPatterns, MountFailure } from "../mount/mount-errors.ts";
import type { MountTable } from "../mount/mount-table.ts";
import type { VolumeContext } from "../requests.ts";

/** A file system of a server, mounted with mount(8). */
export interface AttachedShare {
  readonly kind: "share";
  /** The type passed to mount(8). */
  readonly fsType: string;
  /** "server:/folder", "//server/share". */
  readonly source: string;
  /** Other sources of the same content, tried in this order if the first does not answer. */
  readonly alternatives?: readonly string[];
  /** Mount options except those that a bind mount can carry. Never a secret. */
  readonly options: readonly string[];
  /** True if only the host's mount(8) has the helper for this type. */
  readonly onHost?: boolean;
  /** The standard input of mount(8), which passes secrets on to its helper. Never stored. */
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Texts to hide in messages. */
  readonly secret?: readonly string[];
  /** Error patterns of the helper, in addition to those of mount(8). */
  readonly errorPatterns?: MountErrorPatterns;
  /** Mounts the file system instead of mount(8). */
  readonly program?: MountProgram;
}

/** A program that mounts one file system and keeps running in the background to serve it (fuse(8)). */
export interface MountProgram {
  /** The command line before the mount point, for a mount with these options. */
  argv(options: readonly string[]): Argv;
  /** The meaning of exit codes that the program does not explain in its output. */
  readonly exits: Readonly<Record<number, MountFailure>>;
}

/** A block device that this node sees. */
export interface AttachedDevice {
  readonly kind: "device";
  /** The device file to use, as csimux sees it: "/dev/sda", "/dev/mapper/mpatha". */
  readonly path: string;
  /** The device number as "major:minor", which identifies its mounts. */
  readonly number: string;
  /** An id that stays the same wherever and whenever the volume is attached: WWID, NGUID, GUID of a dataset. */
  readonly identity: string;
  /**
   * Attributes below /sys, and their texts, that the device and its paths have while they are this volume. Once a
   * device is gone, its name and number can be given to another one (sysfs(5)).
   */
  readonly proof: Readonly<Record<string, string>>;
}

/** The form in which an attached volume is available on this node: a folder by its real path, to be bind mounted. */
export type Attached = { readonly kind: "folder"; readonly path: string } | AttachedShare | AttachedDevice;

/** Data that an attacher needs to undo its work. Stored in a file, so never a secret. */
export type AttachmentNotes = Readonly<Record<string, string>>;

/** Merges into the volume's notes and resolves once they are on disk. */
export type SaveNotes = (notes: AttachmentNotes) => Promise<void>;

/** A volume to attach. The call holds the secrets. */
export interface AttachRequest {
  readonly volumeId: string;
  readonly context: VolumeContext;
  /** The answer of ControllerPublishVolume; empty if no controller publishes the volume. */
  readonly publishContext: VolumeContext;
  readonly capability: Capability;
  /** True for a read-only access mode: nothing on the volume may change, not even through a journal replay. */
  readonly readonly: boolean;
  /** The notes of an earlier, possibly interrupted call; empty at first. */
  readonly notes: AttachmentNotes;
  /** The mount table as it was when the call began. */
  readonly table: MountTable;
  /**
   * The recorded attachments of other volumes of the same protocol on this node; none for a volume that is staged already, whose disk in use is
   * not judged by them again. Absent: there are none.
   */
  readonly others?: () => Promise<readonly Attachment[]>;
}

/** A recorded attachment; an interrupted call may not have completed it. */
export interface Attachment {
  readonly volumeId: string;
  readonly context: VolumeContext;
  readonly notes: AttachmentNotes;
  /** What it was attached as; undefined until then. */
  readonly attached?: object | undefined;
}

/**
 * The node's half of a protocol. Every operation is idempotent and may be interrupted after any step; every wait ends
 * with the call. If an attacher has `detach`, the volume's record is on disk before `attach` is called; other data that
 * detaching needs is noted before the step that requires it.
 */
export interface Attacher {
  /** The access modes and types that volumes of this protocol support. */
  readonly access: Access;
  /**
   * The name of a lock for what several volumes share, such as a target: only one of them is attached, detached or
   * expanded at a time. Absent or undefined if volumes share nothing.
   */
  readonly lockOf?: (context: VolumeContext) => string | undefined;
  /**
   * Throws "invalid-argument" for a context that `attach` and `detach` cannot use; contacts no storage. Absent if
   * nothing has to be detached: a record is written only for volumes that can be.
   */
  readonly check?: (context: VolumeContext, volumeId: string) => void;
  /** Throws "invalid-argument" for an incomplete context and "not-found" for a missing volume. */
  attach(wanted: AttachRequest, note: SaveNotes, call: Call): Promise<Attached>;
  /**
   * Undoes attach, after the last mount of the volume is gone. `others` are the recorded attachments of the same
   * protocol on this node; keeps whatever they need. Absent if there is nothing to undo.
   */
  readonly detach?: (attachment: Attachment, others: readonly Attachment[], call: Call) => Promise<void>;
  /** The storage that holds a volume; throws "invalid-argument" for an incomplete context. Absent for local storage. */
  readonly storageOf?: (context: VolumeContext) => StorageAddresses;
  /** Problems of the paths to an attached volume, as the kernel shows them. Absent if there are no paths. */
  readonly health?: (attachment: Attachment) => Promise<readonly Finding[]>;
  /**
   * Reopens lost paths to an attached volume, such as a session that ended during a long network failure, if that needs
   * no secrets. Returns what it opened, empty if nothing was lost. Absent if the protocol keeps nothing open.
   */
  readonly restore?: (attachment: Attachment, call: Call) => Promise<readonly string[]>;
  /**
   * Makes the node see that a volume grew and waits until it has `least` bytes, if given. Returns its size in bytes.
   * Throws "unavailable" if the size does not appear in time. Absent if nothing on the node depends on the size.
   */
  readonly grow?: (attachment: Attachment, least: bigint | undefined, call: Call) => Promise<bigint>;
}

/** A storage system as nodes reach it. */
export interface StorageAddresses {
  /** The protocol and the address, as in "nfs nas.example.org". */
  readonly name: string;
  /** TCP addresses of which at least one must accept connections; empty if unknown. */
  readonly addresses: readonly { readonly host: string; readonly port: number }[];
}

/** The dependencies of attachers. */
export interface AttacherPorts {
  /** Programs of csimux's own container. */
  readonly runner: CommandRunner;
  /** Runs programs of the host, for those that share state with a daemon on the host; paths are the host's. */
  readonly host: CommandRunner;
  /** The folders below which hostpath volumes must lie; undefined allows any. */
  readonly hostFolders: () => Promise<readonly string[] | undefined>;
  /** The datasets below which zfs-local volumes must lie; undefined allows any. */
  readonly hostDatasets: () => Promise<readonly string[] | undefined>;
  /** Whether the host's mount(8) mounts shares: its helpers, such as rpc.statd(8), must outlive csimux. */
  readonly hostMounts: boolean;
  /** The folder of device files, `/dev` outside tests. */
  readonly devices: string;
  /** `/sys` and `/proc` outside tests. */
  readonly sys: string;
  readonly proc: string;
  /** The path of the host's root file system as csimux sees it. */
  readonly hostRoot: string;
  /** The same for one of the host's programs, which may live in a mount namespace of its own; `host` runs it there. */
  readonly rootOf: (program: string) => Promise<string>;
  /** Checks whether a server is reachable. */
  readonly answers: Answers;
  /** The folder of records of opened sessions and connections; must survive restarts. */
  readonly opened: string;
  /** How long further paths may take once one is open, in milliseconds; shorter in tests. */
  readonly graceMs?: number;
}
