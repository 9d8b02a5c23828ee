import type { Call } from "../../core/call.ts";
import type { Context, Page, PageRequest, Source, VolumeSpec } from "../driver.ts";
import { afterFailure, type ErrorMapping } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { sizeFrom, wholeUnits } from "../sizes.ts";
import type { HealthInspection, Notes, VolumeStore } from "../store.ts";
import { dsmFindings } from "./condition.ts";
import { errors, isAnswer, isNoShare } from "./dsm-error.ts";
import type { FolderContext, FolderVolume } from "./folder-context.ts";
import { FolderSnapshots, snapshotsOf } from "./folder-snapshots.ts";
import { mebibyte, type SharedFolder } from "./folders.ts";
import { unknownSource } from "./lun-context.ts";
import { until } from "./until.ts";

/** How long a call waits for DSM, in milliseconds; sidecars wait 15 s, and repeat. */
const patienceMs = 8000;

interface FolderSource {
  readonly share: string;
  readonly snapshot: string | undefined;
  readonly bytes: bigint;
}

/** Volumes as shared folders with a quota. The description of a folder says whose it is and how far it has come. */
export class FolderStore implements VolumeStore<FolderVolume> {
  readonly clonesFrom = ["volume", "snapshot"] as const;
  readonly snapshots: FolderSnapshots;
  readonly #space: FolderContext;

  constructor(space: FolderContext) {
    this.#space = space;
    this.snapshots = new FolderSnapshots(space);
  }

  idOf(name: string): string {
    return this.#space.names.idOf(name);
  }

  explain(error: unknown): ErrorMapping | undefined {
    return this.#space.explain(error);
  }

  async create(spec: VolumeSpec, call: Call): Promise<FolderVolume> {
    const id = this.idOf(spec.name);
    const folder = await this.#space.folder(id, call);
    const standing = this.#space.asset(folder);
    if (standing && (standing.finished || this.#withSource(standing, spec.source).source === unknownSource))
      return this.#withSource(standing, spec.source);
    if (folder && !this.#space.names.parse(folder.description))
      throw this.#space.error("already-exists", `the shared folder "${folder.name}" is not one of this connection`);
    if (folder && !standing) await this.remove(id, async () => {}, call);
    const origin = spec.source && (await this.#origin(spec.source, call));
    const bytes = wholeUnits(sizeFrom(spec.range, origin?.bytes ?? 0n), mebibyte, spec.range.limit);
    let accepted = false;
    const make = async () => {
      if (!standing) await this.#make(id, spec, bytes, origin, call);
      accepted = true;
      const made = await this.#ready(id, call);
      // A clone has the quota of its origin, or none.
      const right = spec.source === undefined || made.bytes === bytes;
      if (!right) await this.#space.folders.set(made.folder, { bytes }, call.signal);
      return this.#withSource(right ? made : await this.#known(id, call), spec.source);
    };
    const undo = async () => {
      // DSM shows a folder some time after it was asked for: one that is not there may still come.
      if (accepted && !(await this.#space.folder(id, call))) return false;
      await this.remove(id, async asset => this.#refuseFinished(asset), call);
      return true;
    };
    const doing = `create volume "${spec.name.slice(0, 160)}"`;
    return make().catch(async error => Promise.reject(await afterFailure(error, undo, this.#space, doing, call)));
  }

  async find(id: string, call: Call): Promise<FolderVolume | undefined> {
    return this.#space.asset(await this.#space.folder(id, call));
  }

  async finish(asset: FolderVolume, _notes: Notes, call: Call): Promise<FolderVolume> {
    const description = this.#space.names.mark("ok", asset.mark.source);
    if (!asset.finished)
      await this.#space.folders.set(asset.folder, { description }, call.signal).catch((error: unknown) => {
        if (!isNoShare(error)) throw error;
        throw this.#space.error("aborted", `volume "${asset.id}" was removed while it was made; repeat the call`);
      });
    return { ...(await this.#known(asset.id, call)), source: asset.source };
  }

  async #refuseRemoval(asset: FolderVolume, call: Call): Promise<void> {
    const held = await snapshotsOf(this.#space, asset, call);
    if (held.length === 0) return;
    throw this.#space.error(
      "failed-precondition",
      `volume "${asset.id}" has ${held.length} snapshot(s), which DSM removes with it; delete them first`,
    );
  }

  async remove(id: string, before: (asset: FolderVolume) => Promise<void>, call: Call): Promise<void> {
    const folder = await this.#space.folder(id, call);
    if (!folder) return;
    const { names, folders } = this.#space;
    const mark = names.parse(folder.description);
    if (!mark)
      throw this.#space.error(
        "failed-precondition",
        `the shared folder "${folder.name}" bears no mark of this connection, so it stays; delete it in DSM if it is yours`,
      );
    const asset = this.#space.asset(folder);
    if (asset) await this.#refuseRemoval(asset, call);
    if (asset) await before(asset);
    // What is half-removed must never be taken for half-made.
    if (asset) await folders.set(folder, { description: names.mark("del", mark.source) }, call.signal);
    await folders.delete(folder.name, call.signal);
    const gone = async () => ((await this.#space.folder(id, call)) ? undefined : true);
    if (await until(this.#space, gone, patienceMs, call)) return;
    throw this.#space.error("aborted", `DSM is still removing the shared folder of volume "${id}"; repeat the call`);
  }

  async resize(asset: FolderVolume, bytes: bigint, limit: bigint | undefined, call: Call): Promise<FolderVolume> {
    const whole = wholeUnits(bytes, mebibyte, limit);
    await this.#space.folders.set(asset.folder, { bytes: whole }, call.signal);
    return this.#known(asset.id, call);
  }

  available(_parameters: Context, call: Call): Promise<bigint> {
    return this.#space.folders.free(this.#space.location, call.signal);
  }

  async list(page: PageRequest, call: Call): Promise<Page<FolderVolume>> {
    const byId = new Map((await this.#space.volumes(call)).map(each => [each.id, each]));
    return pageOf(
      [...byId.keys()],
      text => this.#space.names.isId(text),
      page,
      async id => byId.get(id),
    );
  }

  /** Asks for the volume of DSM, and once for all folders. */
  async look(call: Call): Promise<HealthInspection<FolderVolume>> {
    const { folders, location } = this.#space;
    const [volume, assets] = await Promise.all([folders.volume(location, call.signal), this.#space.volumes(call)]);
    return { storage: dsmFindings(location, volume), volumes: new Map(), assets };
  }

  async check(call: Call): Promise<void> {
    await this.#space.folders.list(call.signal);
    await this.#space.folders.free(this.#space.location, call.signal);
  }

  close(): Promise<void> {
    return this.#space.folders.close();
  }

  async #make(
    id: string,
    spec: VolumeSpec,
    bytes: bigint,
    origin: FolderSource | undefined,
    call: Call,
  ): Promise<void> {
    const { names, folders, location } = this.#space;
    const tag = spec.source && names.sourceTag(spec.source);
    const folder: SharedFolder = { name: names.share(id), location, description: names.mark("new", tag), bytes };
    try {
      if (origin) await folders.clone(folder, origin.share, origin.snapshot, call.signal);
      else await folders.create(folder, call.signal);
    } catch (error) {
      if (!isAnswer(error, errors.shareExists)) throw error;
      // What stands there is not of this call, and may have been completed by now.
      throw this.#space.error(
        "aborted",
        `somebody else is making the shared folder of volume "${id}"; repeat the call`,
      );
    }
  }

  #refuseFinished({ id, finished }: FolderVolume): void {
    if (finished)
      throw this.#space.error("aborted", `volume "${id}" was completed by somebody else meanwhile; it stays`);
  }

  async #origin({ kind, id }: Source, call: Call): Promise<FolderSource> {
    const missing = this.#space.error("not-found", `the source ${kind} "${id.slice(0, 128)}" does not exist`);
    if (kind === "snapshot") {
      const taken = await this.snapshots.find(id, call);
      if (!taken) throw missing;
      return { share: taken.volume.folder.name, snapshot: taken.time, bytes: taken.bytes };
    }
    const volume = await this.find(id, call);
    if (!volume?.finished) throw missing;
    return { share: volume.folder.name, snapshot: undefined, bytes: volume.bytes };
  }

  async #ready(id: string, call: Call): Promise<FolderVolume> {
    const found = await until(this.#space, () => this.find(id, call), patienceMs, call);
    if (found) return found;
    throw this.#space.error("aborted", `DSM is still making the shared folder of volume "${id}"; repeat the call`);
  }

  async #known(id: string, call: Call): Promise<FolderVolume> {
    const asset = await this.find(id, call);
    if (asset) return asset;
    throw this.#space.error("aborted", `the shared folder of volume "${id}" is not there; repeat the call`);
  }

  /** The mark holds a digest of the source only; it tells whether it is this one. */
  #withSource(asset: FolderVolume, wanted: Source | undefined): FolderVolume {
    const { source: tag } = asset.mark;
    if (tag === undefined) return asset;
    return { ...asset, source: wanted && this.#space.names.sourceTag(wanted) === tag ? wanted : unknownSource };
  }
}
