import type { Call } from "../../core/call.ts";
import { isPlainName } from "../../core/name.ts";
import type { Snapshot, SnapshotAbility } from "../driver.ts";
import { unfinished } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { DsmError } from "./dsm-error.ts";
import type { DsmUnit, Kind, SnapshotKind, TakenSnapshot } from "./unit.ts";

const snapshotOf = <U extends DsmUnit<unknown>>({ id, unit, bytes, createdAt, ready }: TakenSnapshot<U>): Snapshot => ({
  ...{ id, volumeId: unit.id, bytes, createdAt, ready },
});

/** The snapshot of an id, and behind it those of the same name: another controller may have taken one for the same call. */
async function withTwins<U extends DsmUnit<A>, A>(
  kind: Kind<U, A>,
  snapshots: SnapshotKind<U, A>,
  id: string,
  call: Call,
): Promise<readonly TakenSnapshot<U>[]> {
  const parts = snapshots.parse(id);
  const unit = parts && snapshots.unitOf(parts, await kind.read(call));
  if (!unit) return [];
  const all = await snapshots.of(unit, call);
  const found = all.find(({ name }) => name === parts[1]);
  if (!found) return [];
  const isOwn = ({ by, key }: TakenSnapshot<U>) => by === snapshots.taker && key === found.key;
  return [found, ...(isOwn(found) ? all.filter(each => each !== found && isOwn(each)) : [])];
}

/** The snapshot of an id; undefined if it does not exist. */
export async function findTaken<U extends DsmUnit<A>, A>(
  kind: Kind<U, A>,
  snapshots: SnapshotKind<U, A>,
  id: string,
  call: Call,
): Promise<TakenSnapshot<U> | undefined> {
  return (await withTwins(kind, snapshots, id, call))[0];
}

/** Snapshots of units, which DSM deletes with their unit. */
export function unitSnapshots<U extends DsmUnit<A>, A>(
  kind: Kind<U, A>,
  snapshots: SnapshotKind<U, A>,
): SnapshotAbility {
  const { place } = kind;
  const { noun, editor } = place.words;

  async function take(
    unit: U,
    name: string,
    key: string,
    take: () => Promise<void>,
    call: Call,
  ): Promise<TakenSnapshot<U>> {
    // DSM may refuse a request and carry it out anyway; a snapshot that exists must not be reported as refused.
    const refusal = await take().catch((error: unknown) => {
      if (error instanceof DsmError) return error;
      throw error;
    });
    // The snapshot may exist now, so a failure here is not final.
    const all = await snapshots.of(unit, call, true).catch((error: unknown) => {
      throw unfinished(error, place, `create snapshot "${name.slice(0, 160)}"`);
    });
    const made = all.find(each => each.key === key);
    if (made) return made;
    throw refusal ?? place.error("aborted", `DSM does not list snapshot "${name}" yet; retrying`);
  }

  /** Throws "failed-precondition" for a snapshot that DSM has, although this connection has no such volume, or not any more. */
  async function refuseKept(id: string, call: Call): Promise<void> {
    const parts = snapshots.parse(id);
    const keeper = parts && (await snapshots.keeper(parts, await kind.read(call), call));
    if (keeper !== undefined) throw place.kept(`snapshot "${id}" of the ${noun} "${keeper}"`);
  }

  return {
    async create(name, volumeId, parameters, call) {
      const all = await kind.read(call, true);
      const unit = isPlainName(volumeId) ? kind.find(volumeId, all) : undefined;
      if (!unit?.finished) throw place.error("not-found", `volume "${volumeId.slice(0, 128)}" does not exist`);
      const key = snapshots.keyOf(name);
      const existing = (await snapshots.of(unit, call)).find(each => each.key === key);
      if (existing) return snapshotOf(existing);
      const other = await snapshots.otherWith(key, unit, kind.finished(all), call);
      if (other) throw place.error("already-exists", `snapshot "${name}" exists, of volume "${other.id}"`);
      return snapshotOf(await take(unit, name, key, () => snapshots.take(unit, name, parameters, call), call));
    },
    async delete(id, call) {
      const found = await withTwins(kind, snapshots, id, call);
      const foreign = found.find(({ key }) => key === undefined);
      if (foreign)
        throw place.error(
          "failed-precondition",
          `snapshot "${id}" was taken by "${foreign.by}" and is kept; delete it in ${editor}`,
        );
      if (found.length === 0) return refuseKept(id, call);
      for (const each of found) await snapshots.delete(each, call);
    },
    async get(id, call) {
      const found = await findTaken(kind, snapshots, id, call);
      if (found) return { ...snapshotOf(found), id };
      throw place.error("not-found", `snapshot "${id.slice(0, 128)}" does not exist`);
    },
    async list({ volumeId }, page, call) {
      const all = await kind.read(call, true);
      const one = volumeId !== undefined && isPlainName(volumeId) ? kind.find(volumeId, all) : undefined;
      const units = volumeId === undefined ? kind.finished(all) : one?.finished ? [one] : [];
      const taken = (await Promise.all(units.map(each => snapshots.of(each, call)))).flat();
      const byId = new Map(taken.filter(({ key }) => key !== undefined).map(each => [each.id, snapshotOf(each)]));
      const isId = (text: string) => snapshots.parse(text) !== undefined;
      return pageOf([...byId.keys()], isId, page, async id => byId.get(id));
    },
  };
}
