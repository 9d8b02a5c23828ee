import type { Call } from "../../core/call.ts";
import { backendName } from "../../core/name.ts";
import type { Snapshot, SnapshotAbility } from "../driver.ts";
import { unfinished } from "../failure.ts";
import { pageOf } from "../pages.ts";
import type { LunContext, NamedLun } from "./contexts.ts";
import { DsmError } from "./dsm-error.ts";
import { isVolumeId } from "./names.ts";
import type { Lun, LunSnapshot, SanTarget } from "./san.ts";
import { type TemplateSources, template } from "./templates.ts";

/** democratic-csi's form: the UUID of the LUN (its number in old ids), then the UUID of the snapshot. */
const idShape = /^\/lun\/([0-9]{1,9}|[0-9A-Fa-f-]{36})\/([0-9A-Fa-f-]{36})$/;

const isSnapshotId = (text: string): boolean => idShape.test(text);

/** The LUNs that are finished volumes of this connection. */
function volumes(context: LunContext, luns: readonly Lun[], targets: readonly SanTarget[]): readonly NamedLun[] {
  return context.named(luns).filter(each => each.state === "whole" && context.maker(each, targets) !== "unknown");
}

/** The LUN and snapshot of an id; undefined if this connection has no such LUN. */
function locate(context: LunContext, id: string, luns: readonly Lun[], targets: readonly SanTarget[]) {
  const [, lun, snapshot] = idShape.exec(id) ?? [];
  if (lun === undefined || snapshot === undefined) return undefined;
  const volume = volumes(context, luns, targets).find(each => each.lun.uuid === lun || each.lun.number === lun);
  return volume && { volume, snapshot };
}

/** The snapshot of an id on these LUNs; undefined if it does not exist. */
export async function snapshotOfId(
  context: LunContext,
  id: string,
  luns: readonly Lun[],
  targets: readonly SanTarget[],
  call: Call,
): Promise<LunSnapshot | undefined> {
  const at = locate(context, id, luns, targets);
  if (!at) return undefined;
  return (await context.snapshots(at.volume.lun, call)).find(each => each.uuid === at.snapshot);
}

/** Snapshots of LUNs, which DSM deletes with their LUN. Their description is their name, as in democratic-csi. */
export function lunSnapshots(context: LunContext, templates: TemplateSources): SnapshotAbility {
  const { san } = context;
  const taker = `csimux:${context.owner}`;

  function snapshotOf({ lun }: NamedLun, snapshot: LunSnapshot, volumeId: string): Snapshot {
    const { bytes, createdAt, ready } = snapshot;
    const id = context.snapshotId(lun, snapshot);
    return { id, volumeId, bytes: bytes > 0n ? bytes : lun.bytes, createdAt, ready };
  }

  async function take(volume: NamedLun, name: string, volumeId: string, fields: object, call: Call): Promise<Snapshot> {
    const { uuid } = volume.lun;
    const own = { snapshot_name: backendName(name, 64), description: name, taken_by: taker };
    // DSM may refuse a request and carry it out anyway; a snapshot that exists must not be reported as refused.
    const refusal = await san.takeSnapshot(uuid, { ...fields, ...own }, call.signal).catch((error: unknown) => {
      if (error instanceof DsmError) return error;
      throw error;
    });
    // The snapshot may exist now, so a failure here is not final.
    const all = await san.snapshots(uuid, call.signal).catch((error: unknown) => {
      throw unfinished(error, context, `create snapshot "${name.slice(0, 160)}"`);
    });
    const made = all.find(each => each.description === name);
    if (made) return snapshotOf(volume, made, volumeId);
    throw refusal ?? context.error("aborted", `DSM does not list snapshot "${name}" yet; retrying`);
  }

  /** The volumes and their snapshots taken by CSI. */
  async function everything(call: Call) {
    const [luns, targets] = await Promise.all([san.luns(call.signal, true), san.targets(call.signal)]);
    const found = volumes(context, luns, targets);
    const snapshots = await Promise.all(
      found.map(async volume =>
        (await context.snapshots(volume.lun, call))
          .filter(each => context.isCsi(each))
          .map(snapshot => ({ volume, snapshot })),
      ),
    );
    return { volumes: found, snapshots: snapshots.flat() };
  }

  async function find(id: string, call: Call) {
    if (!idShape.test(id)) return undefined;
    const { luns, targets } = await context.look(call);
    const at = locate(context, id, luns, targets);
    if (!at) return undefined;
    const all = await context.snapshots(at.volume.lun, call);
    const snapshot = all.find(each => each.uuid === at.snapshot);
    return snapshot && { volume: at.volume, snapshot, twins: twinsOf(snapshot, all) };
  }

  /** Throws "failed-precondition" for a snapshot of a LUN that is not a volume of this connection, or not any more. */
  async function refuseKept(id: string, call: Call): Promise<void> {
    const [, named, uuid] = idShape.exec(id) ?? [];
    const lun = (await san.luns(call.signal)).find(each => each.uuid === named || each.number === named);
    if (!lun || !(await san.snapshots(lun.uuid, call.signal)).some(each => each.uuid === uuid)) return;
    const text = `snapshot "${id}" of the LUN "${lun.name}" does not belong to this connection and is kept; if it is yours, delete it in SAN Manager`;
    throw context.error("failed-precondition", text);
  }

  /** Snapshots of the same name taken by another controller for the same call; they are deleted together. */
  function twinsOf({ uuid, takenBy, description }: LunSnapshot, all: readonly LunSnapshot[]): readonly LunSnapshot[] {
    if (takenBy !== taker) return [];
    return all.filter(each => each.takenBy === takenBy && each.description === description && each.uuid !== uuid);
  }

  return {
    /** One listing contains all snapshots of all LUNs. */
    async create(name, volumeId, parameters, call) {
      const all = await everything(call);
      const volume = isVolumeId(volumeId) ? all.volumes.find(({ id }) => id === volumeId.toLowerCase()) : undefined;
      if (!volume) throw context.error("not-found", `volume "${volumeId.slice(0, 128)}" does not exist`);
      const taken = all.snapshots.find(({ snapshot }) => snapshot.description === name);
      if (taken && taken.volume.lun.uuid !== volume.lun.uuid)
        throw context.error("already-exists", `snapshot "${name}" exists, of volume "${taken.volume.id}"`);
      if (taken) return snapshotOf(taken.volume, taken.snapshot, volumeId);
      const fields = template(templates, "lunSnapshotTemplate", parameters, call);
      return take(volume, name, volumeId, fields, call);
    },
    async delete(id, call) {
      const found = await find(id, call);
      if (!found) return idShape.test(id) ? refuseKept(id, call) : undefined;
      if (!context.isCsi(found.snapshot)) {
        const text = `snapshot "${id}" was taken by "${found.snapshot.takenBy}" and is kept; delete it in SAN Manager`;
        throw context.error("failed-precondition", text);
      }
      for (const { uuid } of [found.snapshot, ...found.twins]) await san.deleteSnapshot(uuid, call.signal);
    },
    async get(id, call) {
      const found = await find(id, call);
      if (found) return { ...snapshotOf(found.volume, found.snapshot, found.volume.id), id };
      throw context.error("not-found", `snapshot "${id.slice(0, 128)}" does not exist`);
    },
    async list({ volumeId }, page, call) {
      const { snapshots } = await everything(call);
      const wanted = volumeId?.toLowerCase();
      const found = snapshots
        .filter(({ volume }) => wanted === undefined || volume.id === wanted)
        .map(({ volume, snapshot }) => snapshotOf(volume, snapshot, volumeId ?? volume.id));
      const byId = new Map(found.map(each => [each.id, each]));
      return pageOf([...byId.keys()], isSnapshotId, page, async id => byId.get(id));
    },
  };
}
