import type { Protocol } from "../../core/access.ts";
import { type Code, CsiError } from "../../core/errors.ts";
import { TryLocks } from "../../core/locks.ts";
import type { ErrorMapping, FailureContext } from "../failure.ts";
import type { ConnectionIdentity } from "../module.ts";
import type { Notes } from "../store.ts";
import type { BlockLists } from "./blocks/block-list.ts";
import type { DatasetNames } from "./names.ts";
import type { Marks } from "./properties.ts";
import type { ZfsStreams } from "./streams.ts";
import { type Permissions, type Zfs, ZfsError, type ZfsFailure } from "./zfs.ts";

/** Volumes that are file systems. */
export interface FilesystemSettings {
  readonly type: "filesystem";
  /** Limit volumes to their size (refquota). */
  readonly quotas: boolean;
  /** Reserve their size (refreservation). */
  readonly reservation: boolean;
  readonly permissions: Permissions | undefined;
  /** The smallest size in bytes that the system accepts; smaller volumes get this size. */
  readonly least?: bigint | undefined;
}

/** Volumes that are block devices. */
export interface ZvolSettings {
  readonly type: "volume";
  /** As ZFS takes it, "16K". */
  readonly blocksize: string;
  /** Empty: inherited. */
  readonly compression: string;
  readonly dedup: string;
  /** Reserve their whole size; sparse otherwise. */
  readonly thick: boolean;
}

/** The settings of a connection's datasets. */
export interface StoreSettings {
  /** Templates by property. */
  readonly datasetProperties: Readonly<Record<string, string>>;
  readonly snapshotProperties: Readonly<Record<string, string>>;
  readonly volumes: FilesystemSettings | ZvolSettings;
  /** Properties of ZFS that cannot be set. */
  readonly fixed: ReadonlySet<string>;
  /** Values that share a new volume, such as sharenfs. */
  readonly sharing: Readonly<Record<string, string>>;
  /** Properties in which the share keeps notes, without their prefix. */
  readonly noteKeys: readonly string[];
  /** The notes that finish a new file system, by its mount point, where its share needs nothing else. */
  readonly address?: ((mountpoint: string) => Notes) | undefined;
  readonly protocol: Protocol;
  readonly marks: Marks;
  /** What to do with a deleted volume that snapshots or clones still need: refuse, or set it aside until they are gone. */
  readonly dependents: "fail" | "tombstone";
  /** What to do with snapshots that csimux did not take: destroy them with their volume, or keep both. */
  readonly foreignSnapshots: "delete" | "keep";
}

/** zfs(8) on the host of a storage, for copies between connections. */
export interface CopyTools {
  readonly zfs: Zfs;
  readonly streams: ZfsStreams;
  readonly blocks: BlockLists;
  /** Values of every new volume that the connection's system sets by itself, and zfs(8) does not. */
  readonly made?: Readonly<Record<string, string>> | undefined;
}

/** A storage as copies between connections reach it. */
export interface CopyAccess extends Omit<CopyTools, "zfs"> {
  readonly storage: ZfsStorage;
}

/** The storage of one connection. */
export class ZfsStorage implements FailureContext {
  readonly identity: ConnectionIdentity;
  readonly settings: StoreSettings;
  readonly names: DatasetNames;
  readonly zfs: Zfs;
  /** The tombstones that could not be destroyed. */
  readonly stuck = new Set<string>();
  /** The names of shares under which volumes are being made. */
  readonly shareNames = new TryLocks();
  readonly #tools: (() => CopyTools) | undefined;
  readonly #permit: Zfs["permit"] | undefined;

  /** Without `tools`, streams cannot be sent and received. `permit` replaces that of `zfs`. */
  constructor(
    identity: ConnectionIdentity,
    settings: StoreSettings,
    names: DatasetNames,
    zfs: Zfs,
    tools?: () => CopyTools,
    permit?: Zfs["permit"],
  ) {
    this.identity = identity;
    this.settings = settings;
    this.names = names;
    this.zfs = zfs;
    this.#tools = tools;
    this.#permit = permit;
  }

  /**
   * The same storage as copies between connections reach it: by zfs(8), also where an API manages everything else. Absent where streams
   * cannot be sent and received.
   */
  get copying(): CopyAccess | undefined {
    const tools = this.#tools?.();
    if (!tools) return undefined;
    const { identity, settings, names, zfs } = this;
    const { streams, blocks, made } = tools;
    if (tools.zfs === zfs) return { storage: this, streams, blocks, made };
    const permit: Zfs["permit"] = (...asked) => zfs.permit(...asked);
    const storage = new ZfsStorage(identity, settings, names, tools.zfs, () => tools, permit);
    return { storage, streams, blocks, made };
  }

  /** As Zfs.permit; the API of a system has its own programs for access control lists. */
  permit(...asked: Parameters<Zfs["permit"]>): Promise<void> {
    return this.#permit ? this.#permit(...asked) : this.zfs.permit(...asked);
  }

  get connection(): string {
    return this.identity.connection;
  }

  explain(error: unknown): ErrorMapping | undefined {
    return zfsErrorMapping(error);
  }

  /** An error that names the connection. */
  error(code: Code, text: string): CsiError {
    return new CsiError(code, `connection "${this.connection}": ${text}`);
  }

  /** The refusal to change what is not this connection's; `what` says so. */
  notOwn(what: string): CsiError {
    return this.error("failed-precondition", `${what}; csimux leaves it as it is`);
  }
}

/** The code of each refusal of ZFS, and what to do about it. */
const refusals: Readonly<Record<ZfsFailure, readonly [Code, string]>> = {
  absent: ["not-found", "it does not exist"],
  "parent-absent": ["aborted", "another call may be creating it"],
  "pool-absent": ["unavailable", "correct the dataset names of the connection, or import the pool"],
  exists: ["aborted", "something of this name exists"],
  busy: ["aborted", "the dataset is busy (mounted elsewhere, or being sent)"],
  used: ["failed-precondition", "nothing was changed"],
  unshared: ["failed-precondition", "it is not shared: set its sharenfs or sharesmb again, or delete the volume"],
  dependents: ["failed-precondition", "delete what was made from it first"],
  held: ["failed-precondition", "a snapshot is held (zfs holds); release it first"],
  locked: ["failed-precondition", "unlock it (zfs load-key, or Unlock in the web interface), and repeat"],
  full: ["resource-exhausted", "the pool, or the quota above it, is full"],
  denied: ["permission-denied", "let the account run zfs as root, or with sudo without a password"],
  suspended: ["unavailable", "the pool is suspended: repair its disks, then run zpool clear"],
  size: ["out-of-range", "the size does not fit the data"],
  invalid: ["failed-precondition", "correct the properties of the connection or of the class"],
  changed: ["aborted", "another call may work on the same volume; retry"],
  unlisted: ["failed-precondition", "make a full backup instead"],
  unfinished: ["unavailable", "what was copied is kept, and the next call continues"],
  incomplete: ["unavailable", "check what lies between zfs and csimux (sudo, wrapper, login shell, proxy), then retry"],
  other: ["internal", "see the output of zfs above"],
};

/** The code and text for an error of ZFS; undefined for any other error. */
export function zfsErrorMapping(error: unknown): ErrorMapping | undefined {
  if (!(error instanceof ZfsError)) return undefined;
  const [code, advice] = refusals[error.failure];
  const text = `${error.message}; ${advice}`;
  return error.failure === "pool-absent" || error.failure === "suspended"
    ? { code, text, refused: "unusable" }
    : { code, text };
}
