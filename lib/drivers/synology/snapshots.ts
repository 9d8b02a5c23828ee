import type { Call } from "../../core/call.ts";
import { backendName } from "../../core/name.ts";
import type { Context, Page, PageRequest, Snapshot, SnapshotAbility } from "../driver.ts";
import { unfinished } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { DsmError } from "./dsm-error.ts";
import type { LunContext, NamedLun } from "./lun-context.ts";
import { isVolumeId } from "./names.ts";
import type { Lun, LunSnapshot, SanTarget } from "./san.ts";
import { type TemplateSources, template } from "./templates.ts";

/** What democratic-csi gives: the LUN by its UUID, in old ones by its number, then the UUID of the snapshot. */
const idShape = /^\/lun\/([0-9]{1,9}|[0-9A-Fa-f-]{36})\/([0-9A-Fa-f-]{36})$/;

/** Whether a text can be the id of a snapshot. */
const isSnapshotId = (text: string): boolean => idShape.test(text);

/** The LUNs of this connection that are whole volumes. */
function volumes(space: LunContext, luns: readonly Lun[], targets: readonly SanTarget[]): readonly NamedLun[] {
  return space.named(luns).filter(each => each.state === "whole" && space.maker(each, targets) !== "somebody else");
}

interface SnapshotOfLun {
  readonly volume: NamedLun;
  readonly snapshot: string;
}

/** Where a snapshot of this id would be; undefined when there is no such LUN of this connection. */
function placeOf(
  space: LunContext,
  id: string,
  luns: readonly Lun[],
  targets: readonly SanTarget[],
): SnapshotOfLun | undefined {
  const [, lun, snapshot] = idShape.exec(id) ?? [];
  if (lun === undefined || snapshot === undefined) return undefined;
  const volume = volumes(space, luns, targets).find(each => each.lun.uuid === lun || each.lun.number === lun);
  return volume && { volume, snapshot };
}

/** The snapshot of an id on these LUNs; undefined when it does not exist. */
export async function snapshotOfId(
  space: LunContext,
  id: string,
  luns: readonly Lun[],
  targets: readonly SanTarget[],
  call: Call,
): Promise<LunSnapshot | undefined> {
  const place = placeOf(space, id, luns, targets);
  if (!place) return undefined;
  return (await space.snapshots(place.volume.lun, call)).find(each => each.uuid === place.snapshot);
}

/** Snapshots of LUNs, which are parts of them. They are called by their description, as democratic-csi does. */
export class LunSnapshots implements SnapshotAbility {
  readonly #space: LunContext;
  readonly #templates: TemplateSources;

  constructor(space: LunContext, templates: TemplateSources) {
    this.#space = space;
    this.#templates = templates;
  }

  /** As SnapshotAbility.create. One look at the system tells every snapshot of every LUN. */
  async create(name: string, volumeId: string, parameters: Context, call: Call): Promise<Snapshot> {
    const all = await this.#all(call);
    const volume = isVolumeId(volumeId) ? all.volumes.find(({ id }) => id === volumeId.toLowerCase()) : undefined;
    if (!volume) throw this.#error("not-found", `volume "${volumeId.slice(0, 128)}" does not exist`);
    const taken = all.snapshots.find(({ snapshot }) => snapshot.description === name);
    if (taken && taken.volume.lun.uuid !== volume.lun.uuid)
      throw this.#error("already-exists", `snapshot "${name}" exists, of volume "${taken.volume.id}"`);
    if (taken) return this.#told(taken.volume, taken.snapshot, volumeId);
    const fields = template(this.#templates, "lunSnapshotTemplate", parameters, call);
    return this.#take(volume, name, volumeId, fields, call);
  }

  /** As SnapshotAbility.delete. */
  async delete(id: string, call: Call): Promise<void> {
    const found = await this.#find(id, call);
    if (!found) return;
    if (!this.#space.isCsi(found.snapshot))
      throw this.#error(
        "failed-precondition",
        `snapshot "${id}" was taken by "${found.snapshot.takenBy}", so it stays; delete it in SAN Manager`,
      );
    for (const { uuid } of [found.snapshot, ...found.twins]) await this.#space.san.deleteSnapshot(uuid, call.signal);
  }

  /** As SnapshotAbility.get. */
  async get(id: string, call: Call): Promise<Snapshot> {
    const found = await this.#find(id, call);
    if (found) return { ...this.#told(found.volume, found.snapshot, found.volume.id), id };
    throw this.#error("not-found", `snapshot "${id.slice(0, 128)}" does not exist`);
  }

  /** As SnapshotAbility.list. */
  async list(
    filter: { readonly volumeId: string | undefined },
    page: PageRequest,
    call: Call,
  ): Promise<Page<Snapshot>> {
    const { snapshots } = await this.#all(call);
    const wanted = filter.volumeId?.toLowerCase();
    const told = snapshots
      .filter(({ volume }) => wanted === undefined || volume.id === wanted)
      .map(({ volume, snapshot }) => this.#told(volume, snapshot, filter.volumeId ?? volume.id));
    const byId = new Map(told.map(each => [each.id, each]));
    return pageOf([...byId.keys()], isSnapshotId, page, async id => byId.get(id));
  }

  async #take(
    volume: NamedLun,
    name: string,
    volumeId: string,
    fields: Context | object,
    call: Call,
  ): Promise<Snapshot> {
    const { san } = this.#space;
    const own = { snapshot_name: backendName(name, 64), description: name, taken_by: this.#taker };
    // What DSM refuses it may have done all the same, and what it did must not be reported as refused.
    const refusal = await san
      .takeSnapshot(volume.lun.uuid, { ...fields, ...own }, call.signal)
      .catch((error: unknown) => {
        if (error instanceof DsmError) return error;
        throw error;
      });
    // It may be there now, so what fails here is not final.
    const all = await san.snapshots(volume.lun.uuid, call.signal).catch((error: unknown) => {
      throw unfinished(error, this.#space, `create snapshot "${name.slice(0, 160)}"`);
    });
    const made = all.find(each => each.description === name);
    if (made) return this.#told(volume, made, volumeId);
    if (refusal) throw refusal;
    throw this.#error("aborted", `DSM does not show snapshot "${name}" yet; repeat the call`);
  }

  /** Volumes and all snapshots of them that CSI took. */
  async #all(call: Call) {
    const [luns, targets] = await Promise.all([
      this.#space.san.luns(call.signal, true),
      this.#space.san.targets(call.signal),
    ]);
    const found = volumes(this.#space, luns, targets);
    const snapshots = await Promise.all(
      found.map(async volume =>
        (await this.#space.snapshots(volume.lun, call))
          .filter(each => this.#space.isCsi(each))
          .map(snapshot => ({ volume, snapshot })),
      ),
    );
    return { volumes: found, snapshots: snapshots.flat() };
  }

  async #find(id: string, call: Call) {
    if (!idShape.test(id)) return undefined;
    const { luns, targets } = await this.#space.look(call);
    const place = placeOf(this.#space, id, luns, targets);
    if (!place) return undefined;
    const all = await this.#space.snapshots(place.volume.lun, call);
    const snapshot = all.find(each => each.uuid === place.snapshot);
    return snapshot && { volume: place.volume, snapshot, twins: this.#twins(snapshot, all) };
  }

  /** What another controller took for the same call: one name means one snapshot, so they go together. */
  #twins({ uuid, takenBy, description }: LunSnapshot, all: readonly LunSnapshot[]): readonly LunSnapshot[] {
    if (takenBy !== this.#taker) return [];
    return all.filter(each => each.takenBy === takenBy && each.description === description && each.uuid !== uuid);
  }

  get #taker(): string {
    return `csimux:${this.#space.owner}`;
  }

  #told({ lun }: NamedLun, snapshot: LunSnapshot, volumeId: string): Snapshot {
    const { bytes, createdAt, ready } = snapshot;
    const id = this.#space.snapshotId(lun, snapshot);
    return { id, volumeId, bytes: bytes > 0n ? bytes : lun.bytes, createdAt, ready };
  }

  #error(code: Parameters<LunContext["error"]>[0], text: string) {
    return this.#space.error(code, text);
  }
}
