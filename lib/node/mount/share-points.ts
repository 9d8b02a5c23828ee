import { join } from "node:path";
import type { Log } from "../../core/call.ts";
import { type Lease, Sharing } from "../../io/lease.ts";
import type { SharePoint, ShareSettings } from "../../io/share-point.ts";
import type { AttachedShare, AttachRequest } from "../attach/attacher.ts";
import { type Attachers, attacherOf } from "../attach/attachers.ts";
import { digest } from "../state/digest.ts";
import { bounded } from "./files.ts";
import { ensureFolder, removeMountPoint } from "./mount-points.ts";
import { type Identity, type MountTable, sameFolder } from "./mount-table.ts";
import type { Mounts } from "./mounts.ts";
import { resolveParents } from "./paths.ts";
import { refuseFlags } from "./refused-flags.ts";

/** How long mounting or unmounting a share may take, in milliseconds, whoever waits for it. */
const mountMs = 40_000;

/** Nobody waits long for the next connection to the same share. */
const idleMs = 1_000;

/** What share points are made of. */
export interface SharePointParts {
  readonly attachers: Attachers;
  readonly mounts: Mounts;
  /** A folder of csimux's own. A process that follows a killed one finds what that one had mounted here, and goes on with it. */
  readonly folder: string;
  readonly log: Log;
}

/** The shares that the controller mounts for itself; connections to the same share with the same flags have one mount. */
export class SharePoints {
  readonly #parts: SharePointParts;
  readonly #sharing = new Sharing<MountedShare>(idleMs);

  constructor(parts: SharePointParts) {
    this.#parts = parts;
  }

  /** Does no I/O. */
  lease(settings: ShareSettings): Lease<SharePoint> {
    const { protocol, context, mountFlags } = settings;
    const key = digest({ protocol, context, mountFlags });
    return this.#sharing.lease(key, () => new MountedShare(this.#parts, settings, key));
  }

  /** Unmounts everything. */
  close(): Promise<void> {
    return this.#sharing.close();
  }
}

class MountedShare implements SharePoint {
  readonly #parts: SharePointParts;
  readonly #settings: ShareSettings;
  readonly #key: string;
  #running: Promise<string> | undefined;
  /** What was seen where it mounted: the kernel may call a server by another name under which it has the same export mounted. */
  #shows: Identity | undefined;
  /** Whether the log tells of the mount that is tried: one that fails is tried again at each question to the storage. */
  #isLogged = false;

  constructor(parts: SharePointParts, settings: ShareSettings, key: string) {
    this.#parts = parts;
    this.#settings = settings;
    this.#key = key;
  }

  folder(signal: AbortSignal): Promise<string> {
    return this.#shared(false, signal);
  }

  renew(signal: AbortSignal): Promise<string> {
    return this.#shared(true, signal);
  }

  /** One piece of work for all who wait; it goes on when one of them leaves. */
  async #shared(anew: boolean, signal: AbortSignal): Promise<string> {
    this.#running ??= this.#ready(anew).finally(() => {
      this.#running = undefined;
    });
    return await bounded(this.#running, `mounting ${this.#settings.context["share"]}`, signal);
  }

  async #ready(anew: boolean): Promise<string> {
    const { mounts, log } = this.#parts;
    const call = { id: "", signal: AbortSignal.timeout(mountMs), log, secrets: {} };
    let table = await mounts.table();
    const at = await this.#at(table, call.signal);
    const share = await this.#share(table);
    if (!anew && this.#isThere(share, at, table)) return at;
    if (table.layers(at) > 0) {
      await mounts.unmount(at, table, call);
      table = await mounts.table();
    }
    await ensureFolder(at, call.signal);
    if (!this.#isLogged)
      log.info("mounting a share for the controller, because it is mounted nowhere else", { source: share.source, at });
    this.#isLogged = true;
    this.#shows = await mounts.mount({ ...share, at, flags: [] }, table, call.signal);
    this.#isLogged = false;
    return at;
  }

  #isThere(share: AttachedShare, at: string, table: MountTable): boolean {
    const top = table.top(at);
    if (top && this.#shows && sameFolder(top, this.#shows)) return true;
    const sources = [share.source, ...(share.alternatives ?? [])];
    return sources.some(source => table.isOf(at, { fsType: share.fsType, source }));
  }

  #at(table: MountTable, signal: AbortSignal): Promise<string> {
    return resolveParents(join(this.#parts.folder, this.#key.slice(0, 32)), table, signal);
  }

  async #share(table: MountTable): Promise<AttachedShare> {
    const { protocol, context, mountFlags } = this.#settings;
    const capability = {
      kind: "mount",
      fsType: undefined,
      mountFlags,
      mountGroup: undefined,
      mode: "multi-node-multi-writer",
    } as const;
    const volumeId = `base folder ${context["share"]}`;
    refuseFlags(volumeId, [], mountFlags);
    const wanted: AttachRequest = {
      volumeId,
      context,
      publishContext: {},
      capability,
      readonly: false,
      notes: {},
      table,
    };
    const call = { id: "", signal: AbortSignal.timeout(mountMs), log: this.#parts.log, secrets: {} };
    const attached = await attacherOf(this.#parts.attachers, protocol, volumeId).attach(wanted, async () => {}, call);
    if (attached.kind === "share") return attached;
    throw new Error(`protocol ${protocol} gives no share`);
  }

  /** A mount that is in use, or whose server is gone, stays for the next process. */
  async close(): Promise<void> {
    const { mounts, log } = this.#parts;
    await this.#running?.catch(() => {});
    const call = { id: "", signal: AbortSignal.timeout(mountMs), log, secrets: {} };
    try {
      const table = await mounts.table();
      const at = await this.#at(table, call.signal);
      if (table.layers(at) > 0) await mounts.unmount(at, table, call);
      await removeMountPoint(at, call.signal);
    } catch (error) {
      const reason = error instanceof Error ? error.message : "unknown";
      log.warn("a share that the controller had mounted could not be unmounted", { reason });
    }
  }
}
