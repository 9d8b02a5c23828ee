import { join } from "node:path";
import type { Call, Log } from "../../core/call.ts";
import { messageOf } from "../../core/errors.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { type Lease, SharedInstances } from "../../io/lease.ts";
import type { SharePoint, ShareSettings } from "../../io/share-point.ts";
import type { AttachedShare, AttachRequest } from "../attach/attacher.ts";
import { type Attachers, attacherOf } from "../attach/attachers.ts";
import { digest } from "../state/stage-records.ts";
import { bounded, ensureFolder, removeMountPoint, resolveParents } from "./files.ts";
import { refuseFlags } from "./flags.ts";
import { type Identity, type MountTable, sameFolder } from "./mount-table.ts";
import type { Mounts } from "./mounts.ts";

/** Time limit for mounting or unmounting a share, in milliseconds, independent of the calls that wait for it. */
const mountMs = 40_000;

/** How long an unused share stays mounted for the next connection, in milliseconds. */
const idleMs = 1_000;

/** The dependencies of SharePoints. */
export interface SharePointParts {
  readonly attachers: Attachers;
  readonly mounts: Mounts;
  /** A folder of csimux's own. A new process finds and reuses what a killed one mounted here. */
  readonly folder: string;
  readonly log: Log;
}

/** The shares that the controller mounts for itself. Connections with the same share and flags use one mount. */
export class SharePoints {
  readonly #parts: SharePointParts;
  readonly #sharing = new SharedInstances<MountedShare>(idleMs);
  /** One mounts or unmounts at a folder at a time: what is found mounted there must not be about to be unmounted. */
  readonly #turns = new Map<string, Semaphore>();

  constructor(parts: SharePointParts) {
    this.#parts = parts;
  }

  /** A lease of the mount for these settings. Does no I/O. */
  lease(settings: ShareSettings): Lease<SharePoint> {
    const { protocol, context, mountFlags } = settings;
    const key = digest({ protocol, context, mountFlags });
    const turn = this.#turns.get(key) ?? new Semaphore(1);
    this.#turns.set(key, turn);
    return this.#sharing.lease(key, () => new MountedShare(this.#parts, settings, key, turn));
  }

  /** Unmounts everything. */
  close(): Promise<void> {
    return this.#sharing.close();
  }
}

/** The export in the source of a mount, without its server: nfs(5), mount.cifs(8) and mount.lustre(8). */
const exportOf = (source: string): string => source.replace(/^(?:\/\/[^/]*|.*?:(?=\/))/, "");

class MountedShare implements SharePoint {
  readonly #parts: SharePointParts;
  readonly #settings: ShareSettings;
  readonly #key: string;
  readonly #turn: Semaphore;
  #running: Promise<string> | undefined;
  /** The identity of the mount: the kernel may show another server name if it already has the same export mounted. */
  #shows: Identity | undefined;
  /** Whether the current mount attempt is logged already: a failed one is repeated with each request to the storage. */
  #isLogged = false;

  constructor(parts: SharePointParts, settings: ShareSettings, key: string, turn: Semaphore) {
    this.#parts = parts;
    this.#settings = settings;
    this.#key = key;
    this.#turn = turn;
  }

  folder(signal: AbortSignal): Promise<string> {
    return this.#shared(false, signal);
  }

  renew(signal: AbortSignal): Promise<string> {
    return this.#shared(true, signal);
  }

  /** Runs one piece of work for all callers; it continues when one of them leaves. */
  async #shared(mustRemount: boolean, signal: AbortSignal): Promise<string> {
    this.#running ??= this.#turn
      .run(() => this.#ready(mustRemount))
      .finally(() => {
        this.#running = undefined;
      });
    return await bounded(this.#running, `mounting ${this.#settings.context["share"]}`, signal);
  }

  async #ready(mustRemount: boolean): Promise<string> {
    const { mounts, log } = this.#parts;
    const call = this.#call();
    let table = await mounts.table();
    const at = await this.#at(table, call.signal);
    const share = await this.#share(table);
    if (!mustRemount && this.#isThere(share, at, table)) return at;
    if (table.layers(at) > 0) {
      await mounts.unmount(at, table, call);
      table = await mounts.table();
    }
    await ensureFolder(at, call.signal);
    if (!this.#isLogged) log.info("mounting a share for the controller", { source: share.source, at });
    this.#isLogged = true;
    this.#shows = await mounts.mount({ ...share, at, flags: [] }, table, call.signal);
    this.#isLogged = false;
    return at;
  }

  /**
   * A process before this one may have made the mount: its folder is named after the settings. The kernel then tells the export, but
   * not always the server that was asked for: it lists all mounts of one file system under the first name of the server.
   */
  #isThere({ fsType, source }: AttachedShare, at: string, table: MountTable): boolean {
    const top = table.top(at);
    if (top && this.#shows && sameFolder(top, this.#shows)) return true;
    return table.isOfType(at, fsType) && exportOf(top?.source ?? "") === exportOf(source);
  }

  #at(table: MountTable, signal: AbortSignal): Promise<string> {
    return resolveParents(join(this.#parts.folder, this.#key.slice(0, 32)), table, signal);
  }

  async #share(table: MountTable): Promise<AttachedShare> {
    const { protocol, context, mountFlags } = this.#settings;
    const access = { kind: "mount", mode: "multi-node-multi-writer" } as const;
    const capability = { ...access, fsType: undefined, mountFlags, mountGroup: undefined };
    const volumeId = `base folder ${context["share"]}`;
    refuseFlags(volumeId, [], mountFlags);
    const volume = { volumeId, context, publishContext: {}, notes: {} };
    const wanted: AttachRequest = { ...volume, capability, readonly: false, table };
    const attacher = attacherOf(this.#parts.attachers, protocol, volumeId);
    const attached = await attacher.attach(wanted, async () => {}, this.#call());
    if (attached.kind === "share") return attached;
    throw new Error(`protocol ${protocol} gives no share`);
  }

  #call(): Call {
    return { id: "", signal: AbortSignal.timeout(mountMs), log: this.#parts.log, secrets: {} };
  }

  /**
   * Unmounts the share. A mount that is in use, or has a dead server, is left for the next process. Takes its turn before it returns, so
   * that anyone who leases the share from now on finds it unmounted.
   */
  close(): Promise<void> {
    return this.#turn.run(() => this.#unmount());
  }

  async #unmount(): Promise<void> {
    const { mounts, log } = this.#parts;
    const call = this.#call();
    try {
      const table = await mounts.table();
      const at = await this.#at(table, call.signal);
      if (table.layers(at) > 0) await mounts.unmount(at, table, call);
      await removeMountPoint(at, call.signal);
    } catch (error) {
      log.warn("cannot unmount a share of the controller; the next process reuses it", {
        reason: messageOf(error),
      });
    }
  }
}
