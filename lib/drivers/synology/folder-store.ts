import type { Call } from "../../core/call.ts";
import { ignoreNotFound } from "../../core/errors.ts";
import type { Source, VolumeSpec } from "../driver.ts";
import { afterFailure } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { sizeFrom, wholeUnits } from "../sizes.ts";
import type { VolumeStore } from "../store.ts";
import { type FolderContext, type FolderVolume, unknownSource, until } from "./contexts.ts";
import { errors, explainDsm, isAnswer, isNoShare } from "./dsm-error.ts";
import { findSnapshot, folderSnapshots, snapshotsOf } from "./folder-snapshots.ts";
import { mebibyte, type NewFolder } from "./folders.ts";
import { type DsmVolume, dsmFindings, dsmVolume } from "./rows.ts";

/** How long a call waits for DSM, in milliseconds; sidecars wait 15 s and then retry. */
const patienceMs = 8000;

interface FolderSource {
  readonly share: string;
  readonly snapshot: string | undefined;
  readonly bytes: bigint;
}

/** Volumes as shared folders with a quota. The description of a folder records its owner and state. */
export function folderStore(context: FolderContext): VolumeStore<FolderVolume> {
  const { names, folders, location } = context;
  const volumeOfDsm = (call: Call): Promise<DsmVolume> => dsmVolume(folders.dsm, location, call.signal);
  const find = async (id: string, call: Call) => context.asset(await context.folder(id, call));

  async function known(id: string, call: Call): Promise<FolderVolume> {
    const asset = await find(id, call);
    if (asset) return asset;
    throw context.error("aborted", `the shared folder of volume "${id}" has disappeared; retrying`);
  }

  /** The mark holds only a digest of the source, which shows whether it is the requested one. */
  function withSource(asset: FolderVolume, wanted: Source | undefined): FolderVolume {
    const { source: tag } = asset.mark;
    if (tag === undefined) return asset;
    return { ...asset, source: wanted && names.sourceTag(wanted) === tag ? wanted : unknownSource };
  }

  async function make(id: string, spec: VolumeSpec, bytes: bigint, origin: FolderSource | undefined, call: Call) {
    const tag = spec.source && names.sourceTag(spec.source);
    const folder: NewFolder = { name: names.share(id), location, description: names.mark("new", tag), bytes };
    try {
      if (origin) await folders.clone(folder, origin.share, origin.snapshot, call.signal);
      else await folders.create(folder, call.signal);
    } catch (error) {
      if (!isAnswer(error, errors.shareExists)) throw error;
      // The existing folder was not created by this call and may be finished by now.
      throw context.error("aborted", `another controller is creating the shared folder of volume "${id}"; retrying`);
    }
  }

  async function originOf({ kind, id }: Source, call: Call): Promise<FolderSource> {
    const missing = context.error("not-found", `the source ${kind} "${id.slice(0, 128)}" does not exist`);
    if (kind === "snapshot") {
      const taken = await findSnapshot(context, id, call);
      if (!taken) throw missing;
      return { share: taken.volume.folder.name, snapshot: taken.time, bytes: taken.bytes };
    }
    const volume = await find(id, call);
    if (!volume?.finished) throw missing;
    return { share: volume.folder.name, snapshot: undefined, bytes: volume.bytes };
  }

  /** The source and the size of a new volume. */
  async function contentOf({ source, range }: VolumeSpec, existing: FolderVolume | undefined, call: Call) {
    const lost = (error: unknown) => {
      // A clone of an earlier call has the whole content of its source already.
      if (!existing) throw error;
      return ignoreNotFound(error);
    };
    const origin = source && (await originOf(source, call).catch(lost));
    const least = source ? (origin ?? existing)?.bytes : undefined;
    return { origin, bytes: wholeUnits(sizeFrom(range, least ?? 0n), mebibyte, range.limit) };
  }

  async function ready(id: string, call: Call): Promise<FolderVolume> {
    const found = await until(context, () => find(id, call), patienceMs, call);
    if (found) return found;
    throw context.error("aborted", `DSM is still creating the shared folder of volume "${id}"; retrying`);
  }

  /** The new volume, with its size. */
  async function ofSize(id: string, { source }: VolumeSpec, bytes: bigint, call: Call): Promise<FolderVolume> {
    const volume = await ready(id, call);
    // A clone has the quota of its source, or none; another controller may have finished it.
    const right = source === undefined || volume.finished || volume.bytes === bytes;
    if (!right) await folders.set(volume.folder, { bytes }, context.unchanged(id, volume.folder), call.signal);
    return withSource(right ? volume : await known(id, call), source);
  }

  async function refuseFinished({ id, finished }: FolderVolume): Promise<void> {
    if (finished)
      throw context.error("aborted", `volume "${id}" was finished by another controller meanwhile and is kept`);
  }

  async function refuseRemoval(asset: FolderVolume, call: Call): Promise<void> {
    const held = await snapshotsOf(context, asset, call);
    if (held.length === 0) return;
    const text = `volume "${asset.id}" has ${held.length} snapshot(s), which DSM would delete with it; delete them first`;
    throw context.error("failed-precondition", text);
  }

  async function refuseOtherwise(id: string, call: Call): Promise<void> {
    const found = await context.otherwise(id, call);
    if (!found) return;
    const text = `the shared folder "${found.name}" is volume "${id}" with another namePrefix, and is kept; restore that in the file, or rename or delete the folder in DSM`;
    throw context.error("failed-precondition", text);
  }

  async function remove(id: string, before: (asset: FolderVolume) => Promise<void>, call: Call): Promise<void> {
    const folder = await context.folder(id, call);
    if (!folder) return refuseOtherwise(id, call);
    const mark = names.parse(folder.description);
    if (!mark) {
      const text = `the shared folder "${folder.name}" does not belong to this connection and is kept; if it is yours, delete it in DSM`;
      throw context.error("failed-precondition", text);
    }
    const asset = context.asset(folder);
    if (asset) await refuseRemoval(asset, call);
    if (asset) await before(asset);
    const removed = { ...folder, description: names.mark("del", mark.source) };
    if (asset) {
      // A half-removed folder must not be mistaken for a half-created one.
      const { description } = removed;
      await folders.set(folder, { description }, context.unchanged(id, folder), call.signal);
    }
    await folders.delete(folder.name, context.unchanged(id, asset ? removed : folder), call.signal);
    const gone = async () => ((await context.folder(id, call))?.uuid !== folder.uuid ? true : undefined);
    if (await until(context, gone, patienceMs, call)) return;
    throw context.error("aborted", `DSM is still removing the shared folder of volume "${id}"; retrying`);
  }

  return {
    ...{ find, remove, explain: explainDsm, clonesFrom: ["volume", "snapshot"] },
    get snapshots() {
      return folderSnapshots(context);
    },
    idOf: name => names.idOf(name),
    async create(spec, call) {
      const id = names.idOf(spec.name);
      const folder = await context.folder(id, call);
      const existing = context.asset(folder);
      if (existing && (existing.finished || withSource(existing, spec.source).source === unknownSource))
        return withSource(existing, spec.source);
      if (folder && !names.parse(folder.description)) {
        const text = `the shared folder "${folder.name}" exists and does not belong to this connection`;
        throw context.error("already-exists", text);
      }
      if (folder && !existing) await remove(id, async () => {}, call);
      let accepted = false;
      const made = async () => {
        const { origin, bytes } = await contentOf(spec, existing, call);
        if (!existing) await make(id, spec, bytes, origin, call);
        accepted = true;
        return ofSize(id, spec, bytes, call);
      };
      const undo = async () => {
        // DSM lists a folder some time after the request, so an absent one may still appear.
        if (accepted && !(await context.folder(id, call))) return false;
        await remove(id, refuseFinished, call);
        return true;
      };
      const doing = `create volume "${spec.name.slice(0, 160)}"`;
      return made().catch(async error => Promise.reject(await afterFailure(error, undo, context, doing, call)));
    },
    async finish(asset, _notes, call) {
      const description = names.mark("ok", asset.mark.source);
      if (!asset.finished) {
        const still = context.unchanged(asset.id, asset.folder);
        await folders.set(asset.folder, { description }, still, call.signal).catch((error: unknown) => {
          if (!isNoShare(error)) throw error;
          throw context.error("aborted", `volume "${asset.id}" was removed while it was created; retrying`);
        });
      }
      return { ...(await known(asset.id, call)), source: asset.source };
    },
    idOfObject: object => names.idIn(object.toLowerCase()) ?? object,
    async unmarked(id, call) {
      const folder = await context.folder(id, call);
      if (!folder) return undefined;
      if (folder.location !== location || folder.description.startsWith("csimux "))
        throw context.error(
          "failed-precondition",
          `the shared folder "${folder.name}" is on ${folder.location} with the description "${folder.description}"; only one on ${location} without a mark of csimux can be adopted`,
        );
      const mark = { state: "ok", owner: "", source: undefined } as const;
      return { id, folder, mark, bytes: folder.bytes, name: undefined, source: undefined, notes: {}, finished: true };
    },
    mark: ({ id, folder }, _notes, call) =>
      folders.set(folder, { description: names.mark("ok", undefined) }, context.unchanged(id, folder), call.signal),
    async resize(asset, bytes, limit, call) {
      const still = context.unchanged(asset.id, asset.folder);
      await folders.set(asset.folder, { bytes: wholeUnits(bytes, mebibyte, limit) }, still, call.signal);
      return known(asset.id, call);
    },
    available: async (_parameters, call) => (await volumeOfDsm(call)).free,
    async list(page, call) {
      const byId = new Map((await context.volumes(call)).map(each => [each.id, each]));
      const isId = (text: string) => names.isId(text);
      return pageOf([...byId.keys()], isId, page, async id => byId.get(id));
    },
    /** Reads the volume of DSM and, in one request, all folders. */
    async look(call) {
      const [volume, assets] = await Promise.all([volumeOfDsm(call), context.volumes(call)]);
      return { storage: dsmFindings(location, volume), volumes: new Map(), assets };
    },
    async check(call) {
      await folders.list(call.signal);
      await volumeOfDsm(call);
    },
    close: () => folders.dsm.release(),
  };
}
