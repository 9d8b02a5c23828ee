import type { Call } from "../../core/call.ts";
import { ignoreNotFound } from "../../core/errors.ts";
import { isPlainName } from "../../core/name.ts";
import { findingsOf } from "../../health/finding.ts";
import type { Source, VolumeSpec } from "../driver.ts";
import { afterFailure } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { sizeFrom, wholeUnits } from "../sizes.ts";
import type { VolumeStore } from "../store.ts";
import { isAnswer } from "./dsm-error.ts";
import { sourceTag } from "./names.ts";
import { dsmFindings, dsmVolume } from "./rows.ts";
import { findTaken, unitSnapshots } from "./snapshots.ts";
import type { DsmUnit, Kind, Origin, SnapshotKind } from "./unit.ts";

/** Equals no real source: stands for a source other than the requested one. */
const unknownSource: Source = { kind: "volume", id: "" };

/** DSM keeps no more than a digest of a source, which shows whether it is the requested one. */
function withSource<U extends DsmUnit<unknown>>(unit: U, wanted: Source | undefined): U {
  if (unit.tag === undefined) return unit;
  return { ...unit, source: wanted && sourceTag(wanted) === unit.tag ? wanted : unknownSource };
}

/** Volumes as units of a DSM: LUNs or shared folders. */
export function unitStore<U extends DsmUnit<A>, A>(kind: Kind<U, A>, snapshots: SnapshotKind<U, A>): VolumeStore<U> {
  const { names, place } = kind;
  const { noun, editor, affixes } = place.words;
  const volumeOfDsm = (call: Call) => dsmVolume(place.dsm, place.location, call.signal);
  const find = async (id: string, call: Call) => (isPlainName(id) ? kind.find(id, await kind.read(call)) : undefined);

  async function originOf(source: Source, call: Call): Promise<Origin<U>> {
    const taken = source.kind === "snapshot" ? await findTaken(kind, snapshots, source.id, call) : undefined;
    if (taken) return taken;
    const unit = source.kind === "volume" ? await find(source.id, call) : undefined;
    if (unit?.finished) return { unit, bytes: unit.bytes };
    throw place.error("not-found", `the source ${source.kind} "${source.id.slice(0, 128)}" does not exist`);
  }

  /** The source and the size of a new volume. */
  async function contentOf({ source, range }: VolumeSpec, existing: U | undefined, call: Call) {
    const lost = (error: unknown) => {
      // A clone of an earlier call has the whole content of its source already.
      if (!existing) throw error;
      return ignoreNotFound(error);
    };
    const origin = source && (await originOf(source, call).catch(lost));
    const least = source ? (origin ?? existing)?.bytes : undefined;
    return { origin, bytes: wholeUnits(sizeFrom(range, least ?? 0n), kind.sizeUnit, range.limit) };
  }

  async function make(id: string, spec: VolumeSpec, bytes: bigint, origin: Origin<U> | undefined, call: Call) {
    await kind.make(id, spec, bytes, origin, call).catch((error: unknown) => {
      if (!isAnswer(error, kind.existsCode)) throw error;
      // The existing one was not created by this call and may be finished by now.
      throw place.error("aborted", `another controller is creating the ${noun} of volume "${id}"; retrying`);
    });
  }

  /** Waits for the new unit, which has the size of its source, or none; another controller may have finished it. */
  async function ready(id: string, { source }: VolumeSpec, bytes: bigint, call: Call): Promise<U> {
    const look = () => kind.made(id, source, call);
    const isRight = (unit: U) => unit.finished || unit.bytes === bytes || (unit.bytes > bytes && !kind.shrinks);
    const unit = await place.awaited(look, "creating", id, call);
    if (source === undefined || isRight(unit)) return withSource(unit, source);
    await kind.resize(unit, bytes, call);
    const grown = async () => [await look()].find(each => each && isRight(each));
    return withSource(await place.awaited(grown, "growing", id, call), source);
  }

  async function refuseSnapshots(unit: U, call: Call): Promise<void> {
    const all = await snapshots.of(unit, call);
    const held = all.filter(({ key }) => key !== undefined);
    if (held.length > 0) {
      const text = `volume "${unit.id}" has ${held.length} snapshot(s), which DSM would delete with it; delete them first`;
      throw place.error("failed-precondition", text);
    }
    if (all.length === 0) return;
    const about = { volumeId: unit.id, snapshots: all.length };
    call.log.warn(`snapshots that DSM or a person took are deleted with the volume's ${noun}`, about);
  }

  async function remove(id: string, before: (unit: U) => Promise<void>, call: Call): Promise<void> {
    if (!isPlainName(id)) return;
    const all = await kind.read(call);
    const other = kind.isThere(id, all) ? undefined : kind.otherwise(id, all);
    if (other !== undefined) {
      const text = `the ${noun} "${other}" is volume "${id}" with another ${affixes}, and is kept; restore that in the file, or rename or delete the ${noun} in ${editor}`;
      throw place.error("failed-precondition", text);
    }
    const unit = kind.find(id, all);
    if (unit) {
      await refuseSnapshots(unit, call);
      await before({ ...unit, beside: all });
    }
    await kind.remove(id, all, call);
  }

  async function refuseFinished({ id, finished }: U): Promise<void> {
    if (finished)
      throw place.error("aborted", `volume "${id}" was finished by another controller meanwhile and is kept`);
  }

  return {
    ...{ find, remove, explain: place.explain, clonesFrom: ["volume", "snapshot"], ...kind.adoption },
    get snapshots() {
      return unitSnapshots(kind, snapshots);
    },
    idOf: name => names.idOf(name),
    idOfObject: object => kind.idOfObject(object),
    async create(spec, call) {
      const id = names.idOf(spec.name);
      const all = await kind.read(call);
      const existing = kind.find(id, all);
      if (existing && (existing.finished || withSource(existing, spec.source).source === unknownSource))
        return withSource(existing, spec.source);
      if (!existing) await kind.prepare(id, spec.source, all, call);
      let accepted = false;
      const made = async () => {
        const { origin, bytes } = await contentOf(spec, existing, call);
        if (!existing) await make(id, spec, bytes, origin, call);
        accepted = true;
        return ready(id, spec, bytes, call);
      };
      const undo = async () => {
        // DSM lists a unit some time after the request, so an absent one may still appear. It also refuses some requests and carries them out.
        if (!kind.isThere(id, await kind.read(call))) return !accepted;
        await remove(id, refuseFinished, call);
        return true;
      };
      const doing = `create volume "${spec.name.slice(0, 160)}"`;
      return made().catch(async error => Promise.reject(await afterFailure(error, undo, place, doing, call)));
    },
    async finish(unit, notes, call) {
      if (unit.finished) return { ...unit, notes: { ...unit.notes, ...notes } };
      return kind.finish(unit, notes, call).catch((error: unknown) => {
        if (!isAnswer(error, kind.existsCode) && !kind.isGone(error)) throw error;
        const text = `another controller finished or removed volume "${unit.id}" meanwhile; retrying`;
        throw place.error("aborted", text);
      });
    },
    sameSource: (a, b) => a.kind === b.kind && sourceTag(a) === sourceTag(b),
    async resize(unit, bytes, limit, call) {
      await kind.resize(unit, wholeUnits(bytes, kind.sizeUnit, limit), call);
      const resized = await find(unit.id, call);
      if (resized) return resized;
      throw place.error("aborted", `the ${noun} of volume "${unit.id}" has disappeared; retrying`);
    },
    available: async (_parameters, call) => (await volumeOfDsm(call)).free,
    async list(page, call) {
      const byId = new Map(kind.finished(await kind.read(call)).map(each => [each.id, each]));
      return pageOf(
        [...byId.keys()],
        text => isPlainName(text),
        page,
        async id => byId.get(id),
      );
    },
    /** Reads the volume of DSM and, in one request each, all LUNs and targets, or all folders. */
    async look(call) {
      const [volume, all] = await Promise.all([volumeOfDsm(call), kind.read(call)]);
      const assets = kind.finished(all);
      const volumes = findingsOf(assets.map(each => [each.id, kind.findings(each)] as const));
      return { storage: dsmFindings(place.location, volume), volumes, assets };
    },
    async check(call) {
      await kind.read(call);
      await volumeOfDsm(call);
    },
    close: () => place.dsm.release(),
  };
}
