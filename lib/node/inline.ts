// lib/node: the node RPCs. volumes.ts is the entry; stage.ts and publish.ts do what their names say, inline.ts both for
// inline volumes. A protocol (attach/, iscsi/, nvme/) makes a volume available on this node, disks/ makes a device
// mountable, mount/ mounts it, state/ remembers it, health/ watches it.

import type { AccessMode, Capability } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import { CsiError, isFinal } from "../core/errors.ts";
import { ensureFolder, removeMountPoint, resolveParents } from "./mount/files.ts";
import { bindFlags, lackingFlags } from "./mount/flags.ts";
import { type MountTable, sameFolder } from "./mount/mount-table.ts";
import type { Mounts } from "./mount/mounts.ts";
import type { PublishRequest, UnpublishRequest, VolumeContext } from "./requests.ts";
import type { MountOwnership } from "./state/ownership.ts";
import { notYetAttached, type StageRecord, StageRecords } from "./state/stage-records.ts";

/** A provisioned inline volume: the arguments of mount(8), and an identity that no other volume ever has. */
export interface InlineSource {
  readonly fsType: string;
  readonly source: string;
  readonly identity: string;
}

/** The connection of an inline volume, and what distinguishes that from every other volume. */
export interface InlineOwner {
  readonly connection: string;
  readonly identity: string;
}

/** Provisions inline volumes. Every operation is idempotent and may be interrupted after any step. */
export interface InlineProvisioner {
  /** Throws "invalid-argument" if neither the attributes nor the id name a connection. */
  connectionOf(id: string, attributes: VolumeContext): string;
  /**
   * The connection on which the volume of this id is provably this source, and its identity; undefined if there is none. Throws
   * "unavailable" while one that may be it cannot be used.
   */
  owner(id: string, source: string, call: Call): Promise<InlineOwner | undefined>;
  /** Creates or finds the volume. Calls `begin` with its name after checking the request and before any change. */
  make(
    connection: string,
    id: string,
    attributes: VolumeContext,
    begin: (source: string) => Promise<void>,
    call: Call,
  ): Promise<InlineSource>;
  /** Removes the volume with its content, if it is provably this volume; succeeds if it does not exist. */
  remove(connection: string, id: string, identity: string | undefined, call: Call): Promise<void>;
}

const protocol = "inline";

/** Whether a publish call is for an inline volume (Kubernetes, podInfoOnMount). */
export const isInline = (context: VolumeContext): boolean => context["csi.storage.k8s.io/ephemeral"] === "true";

/**
 * Inline volumes, which live with their pod: created by publishing, removed by unpublishing. The record is on disk
 * before anything is created, so that it is found again after any failure. The caller holds the locks of the volume and
 * the target.
 */
export class InlineVolumes {
  readonly #maker: InlineProvisioner;
  readonly #mounts: Mounts;
  readonly #records: StageRecords;
  readonly #ownership: MountOwnership;

  /** `folder` holds the records; it must survive restarts of the machine. */
  constructor(maker: InlineProvisioner, mounts: Mounts, ownership: MountOwnership, folder: string) {
    this.#maker = maker;
    this.#mounts = mounts;
    this.#ownership = ownership;
    this.#records = new StageRecords(folder);
  }

  /** `targetPath` comes from checkedPath. */
  async publish(request: PublishRequest, call: Call): Promise<void> {
    const { volumeId, capability, context, readonly } = request;
    refuseUnfit(volumeId, capability);
    const connection = this.#maker.connectionOf(volumeId, context);
    const table = await this.#mounts.table();
    const target = await resolveParents(request.targetPath, table, call.signal);
    const before = await this.#records.find(volumeId, call.log);
    if (before && (before.stagingPath !== target || before.context["connection"] !== connection)) {
      const text = `volume "${volumeId}" is published at ${before.stagingPath}, from connection "${before.context["connection"]}"; unpublish it first`;
      throw new CsiError("already-exists", text);
    }
    const record: StageRecord = { ...blank(volumeId, target, capability.mode, readonly), context: { connection } };
    const begin = async (source: string): Promise<void> => {
      if (!before) await this.#records.save({ ...record, attached: shareOf(source) }, true);
    };
    try {
      const made = await this.#maker.make(connection, volumeId, context, begin, call);
      const shows = before?.shows;
      const known = { ...record, shows, attached: shareOf(made.source), notes: { identity: made.identity } };
      await this.#records.save(known, true);
      await this.#mount(known, made.source, table, call);
    } catch (error) {
      if (!isFinal(error)) throw error;
      // Once it was mounted, a pod may use it, as when the kubelet has restarted. What an earlier attempt has begun is of no use to anyone.
      const mayBeUsed = before !== undefined && (before.shows !== undefined || table.layers(target) > 0);
      throw mayBeUsed ? notFinal(volumeId, error, "it stays") : await this.#undone(volumeId, error, call);
    }
  }

  /** Returns false for a volume that is not inline. Succeeds if nothing is there. */
  async unpublish({ volumeId, targetPath }: UnpublishRequest, call: Call): Promise<boolean> {
    const found = await this.#records.find(volumeId, call.log);
    if (!found && !(await this.#ownership.isInlineAt(volumeId, targetPath))) return false;
    const table = await this.#mounts.table();
    const target = await resolveParents(targetPath, table, call.signal);
    const record = found ?? (await this.#rebuilt(volumeId, target, table, call));
    if (!record) return false;
    if (target !== record.stagingPath) {
      const text = `volume "${volumeId}" is published at ${record.stagingPath}, not at ${target}`;
      throw new CsiError("invalid-argument", text);
    }
    await this.#remove(record, table, call);
    return true;
  }

  /**
   * The record of a volume that democratic-csi has published, or whose record was lost: only the mount still tells which dataset has to
   * be removed, so it is recorded before the unmount. Undefined for what is not provably the volume: it is unmounted, and kept.
   */
  async #rebuilt(volumeId: string, target: string, table: MountTable, call: Call): Promise<StageRecord | undefined> {
    const top = table.top(target);
    const owner = top && (await this.#maker.owner(volumeId, top.source, call));
    if (!owner) return undefined;
    const { connection, identity } = owner;
    call.log.warn("rebuilding the missing record of an inline volume", { volumeId, target, connection });
    const shows = { device: top.device, root: top.root };
    const parts = { context: { connection }, attached: shareOf(top.source), shows, notes: { identity } };
    const record = { ...blank(volumeId, target, "single-node-writer", false), ...parts };
    await this.#records.save(record, true);
    return record;
  }

  async #remove(record: StageRecord, table: MountTable, call: Call): Promise<void> {
    const { volumeId, stagingPath: target, context, notes } = record;
    if (table.layers(target) > 0) {
      if (!isShown(record, table)) {
        const text = `the mount at ${target} was not made for volume "${volumeId}" as far as csimux knows; it was not unmounted, unmount it manually if it is not needed`;
        throw new CsiError("failed-precondition", text);
      }
      await this.#mounts.unmount(target, table, call);
    }
    await removeMountPoint(target, call.signal);
    await this.#maker.remove(context["connection"] ?? "", volumeId, notes["identity"], call);
    await this.#records.remove(volumeId);
  }

  async #mount(record: StageRecord, source: string, table: MountTable, call: Call): Promise<void> {
    const { stagingPath: target, flags } = record;
    const top = table.top(target);
    if (!top) {
      await ensureFolder(target, call.signal);
      const wanted = { fsType: "zfs", source, options: [], at: target, flags, onHost: true };
      const seen = await this.#mounts.mount(wanted, table, call.signal);
      return await this.#records.save({ ...record, shows: seen });
    }
    if (!isShown(record, table))
      throw new CsiError("failed-precondition", `${target} is in use and does not show volume "${record.volumeId}"`);
    if (lackingFlags(flags, top.options).length > 0) {
      const text = `volume "${record.volumeId}" is published at ${target} with other arguments`;
      throw new CsiError("already-exists", text);
    }
    if (!record.shows) await this.#records.save({ ...record, shows: { device: top.device, root: top.root } });
  }

  /** The error to throw: final only if nothing is left. */
  async #undone(volumeId: string, error: unknown, call: Call): Promise<unknown> {
    try {
      const record = await this.#records.find(volumeId, call.log);
      if (record) await this.#remove(record, await this.#mounts.table(), call);
      return error;
    } catch (cause) {
      return notFinal(volumeId, error, "a part of the volume was created", cause);
    }
  }
}

/** The error for a volume of which something is left: after a final one, the CO does not unpublish it. */
function notFinal(volumeId: string, error: unknown, left: string, cause = error): CsiError {
  const what = error instanceof CsiError ? error.message : `publishing volume "${volumeId}" failed`;
  return new CsiError("unavailable", `${what}; ${left}: retrying`, { cause });
}

/** Whether the volume is mounted at its target: by name, or by recorded identity, as a dataset can be renamed. */
function isShown({ stagingPath, attached, shows }: StageRecord, table: MountTable): boolean {
  const top = table.top(stagingPath);
  if (!top || attached?.kind !== "share") return false;
  return top.source === attached.source || (top.fsType === "zfs" && shows !== undefined && sameFolder(top, shows));
}

const shareOf = (source: string) => ({ kind: "share", fsType: "zfs", source }) as const;

const blank = (volumeId: string, target: string, mode: AccessMode, readonly: boolean) => ({
  volumeId,
  stagingPath: target,
  protocol,
  kind: "mount" as const,
  fsType: "zfs",
  mode,
  flags: readonly ? bindFlags(["ro"]) : [],
  ...notYetAttached,
});

/** Throws "invalid-argument" for a capability that an inline volume cannot have: it is the folder of a single pod. */
function refuseUnfit(volumeId: string, { kind, fsType, mountFlags, mode }: Capability): void {
  const wrong =
    (kind !== "mount" && "a block device") ||
    (fsType && fsType !== "zfs" && `a file system of type ${fsType.slice(0, 40)}`) ||
    (mountFlags.length > 0 && "mounted with flags") ||
    (!mode.startsWith("single-node") && `shared (${mode})`);
  if (wrong) throw new CsiError("invalid-argument", `the inline volume "${volumeId}" cannot be ${wrong}`);
}
