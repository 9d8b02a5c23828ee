import type { Call } from "../../core/call.ts";
import type { Context, Page, PageRequest, Source, VolumeSpec } from "../driver.ts";
import { afterFailure } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { sizeFrom, wholeUnits } from "../sizes.ts";
import type { HealthInspection, Notes, VolumeStore } from "../store.ts";
import { type FolderContext, type FolderVolume, unknownSource, until } from "./contexts.ts";
import { errors, explainDsm, isAnswer, isNoShare } from "./dsm-error.ts";
import { FolderSnapshots, snapshotsOf } from "./folder-snapshots.ts";
import { mebibyte, type SharedFolder } from "./folders.ts";
import { type DsmVolume, dsmFindings, dsmVolume } from "./rows.ts";

/** How long a call waits for DSM, in milliseconds; sidecars wait 15 s and then retry. */
const patienceMs = 8000;

interface FolderSource {
  readonly share: string;
  readonly snapshot: string | undefined;
  readonly bytes: bigint;
}

/** Volumes as shared folders with a quota. The description of a folder records its owner and state. */
export class FolderStore implements VolumeStore<FolderVolume> {
  readonly explain = explainDsm;
  readonly clonesFrom = ["volume", "snapshot"] as const;
  readonly snapshots: FolderSnapshots;
  readonly #context: FolderContext;

  constructor(context: FolderContext) {
    this.#context = context;
    this.snapshots = new FolderSnapshots(context);
  }

  idOf(name: string): string {
    return this.#context.names.idOf(name);
  }

  async create(spec: VolumeSpec, call: Call): Promise<FolderVolume> {
    const id = this.idOf(spec.name);
    const folder = await this.#context.folder(id, call);
    const existing = this.#context.asset(folder);
    if (existing && (existing.finished || this.#withSource(existing, spec.source).source === unknownSource))
      return this.#withSource(existing, spec.source);
    if (folder && !this.#context.names.parse(folder.description)) {
      const text = `the shared folder "${folder.name}" exists and does not belong to this connection`;
      throw this.#context.error("already-exists", text);
    }
    if (folder && !existing) await this.remove(id, async () => {}, call);
    const origin = spec.source && (await this.#origin(spec.source, call));
    const bytes = wholeUnits(sizeFrom(spec.range, origin?.bytes ?? 0n), mebibyte, spec.range.limit);
    let accepted = false;
    const make = async () => {
      if (!existing) await this.#make(id, spec, bytes, origin, call);
      accepted = true;
      const made = await this.#ready(id, call);
      // A clone has the quota of its source, or none.
      const right = spec.source === undefined || made.bytes === bytes;
      if (!right) await this.#context.folders.set(made.folder, { bytes }, call.signal);
      return this.#withSource(right ? made : await this.#known(id, call), spec.source);
    };
    const undo = async () => {
      // DSM lists a folder some time after the request, so an absent one may still appear.
      if (accepted && !(await this.#context.folder(id, call))) return false;
      await this.remove(id, async asset => this.#refuseFinished(asset), call);
      return true;
    };
    const doing = `create volume "${spec.name.slice(0, 160)}"`;
    return make().catch(async error => Promise.reject(await afterFailure(error, undo, this.#context, doing, call)));
  }

  async find(id: string, call: Call): Promise<FolderVolume | undefined> {
    return this.#context.asset(await this.#context.folder(id, call));
  }

  async finish(asset: FolderVolume, _notes: Notes, call: Call): Promise<FolderVolume> {
    const description = this.#context.names.mark("ok", asset.mark.source);
    if (!asset.finished)
      await this.#context.folders.set(asset.folder, { description }, call.signal).catch((error: unknown) => {
        if (!isNoShare(error)) throw error;
        throw this.#context.error("aborted", `volume "${asset.id}" was removed while it was created; retrying`);
      });
    return { ...(await this.#known(asset.id, call)), source: asset.source };
  }

  idOfObject(object: string): string {
    return this.#context.names.idIn(object.toLowerCase()) ?? object;
  }

  async unmarked(id: string, call: Call): Promise<FolderVolume | undefined> {
    const folder = await this.#context.folder(id, call);
    if (!folder) return undefined;
    if (folder.location !== this.#context.location || folder.description.startsWith("csimux "))
      throw this.#context.error(
        "failed-precondition",
        `the shared folder "${folder.name}" is on ${folder.location} with the description "${folder.description}"; only one on ${this.#context.location} without a mark of csimux can be adopted`,
      );
    const mark = { state: "ok", owner: "", source: undefined } as const;
    return { id, folder, mark, bytes: folder.bytes, name: undefined, source: undefined, notes: {}, finished: true };
  }

  async mark({ folder }: FolderVolume, _notes: Notes, call: Call): Promise<void> {
    const description = this.#context.names.mark("ok", undefined);
    await this.#context.folders.set(folder, { description }, call.signal);
  }

  async #refuseRemoval(asset: FolderVolume, call: Call): Promise<void> {
    const held = await snapshotsOf(this.#context, asset, call);
    if (held.length === 0) return;
    const text = `volume "${asset.id}" has ${held.length} snapshot(s), which DSM would delete with it; delete them first`;
    throw this.#context.error("failed-precondition", text);
  }

  async remove(id: string, before: (asset: FolderVolume) => Promise<void>, call: Call): Promise<void> {
    const folder = await this.#context.folder(id, call);
    if (!folder) return;
    const { names, folders } = this.#context;
    const mark = names.parse(folder.description);
    if (!mark) {
      const text = `the shared folder "${folder.name}" does not belong to this connection and is kept; if it is yours, delete it in DSM`;
      throw this.#context.error("failed-precondition", text);
    }
    const asset = this.#context.asset(folder);
    if (asset) await this.#refuseRemoval(asset, call);
    if (asset) await before(asset);
    // A half-removed folder must not be mistaken for a half-created one.
    if (asset) await folders.set(folder, { description: names.mark("del", mark.source) }, call.signal);
    await folders.delete(folder.name, call.signal);
    const gone = async () => ((await this.#context.folder(id, call)) ? undefined : true);
    if (await until(this.#context, gone, patienceMs, call)) return;
    throw this.#context.error("aborted", `DSM is still removing the shared folder of volume "${id}"; retrying`);
  }

  async resize(asset: FolderVolume, bytes: bigint, limit: bigint | undefined, call: Call): Promise<FolderVolume> {
    const whole = wholeUnits(bytes, mebibyte, limit);
    await this.#context.folders.set(asset.folder, { bytes: whole }, call.signal);
    return this.#known(asset.id, call);
  }

  async available(_parameters: Context, call: Call): Promise<bigint> {
    return (await this.#volume(call)).free;
  }

  async list(page: PageRequest, call: Call): Promise<Page<FolderVolume>> {
    const byId = new Map((await this.#context.volumes(call)).map(each => [each.id, each]));
    return pageOf(
      [...byId.keys()],
      text => this.#context.names.isId(text),
      page,
      async id => byId.get(id),
    );
  }

  /** Reads the volume of DSM and, in one request, all folders. */
  async look(call: Call): Promise<HealthInspection<FolderVolume>> {
    const [volume, assets] = await Promise.all([this.#volume(call), this.#context.volumes(call)]);
    return { storage: dsmFindings(this.#context.location, volume), volumes: new Map(), assets };
  }

  async check(call: Call): Promise<void> {
    await this.#context.folders.list(call.signal);
    await this.#volume(call);
  }

  close(): Promise<void> {
    return this.#context.folders.dsm.release();
  }

  #volume(call: Call): Promise<DsmVolume> {
    return dsmVolume(this.#context.folders.dsm, this.#context.location, call.signal);
  }

  async #make(
    id: string,
    spec: VolumeSpec,
    bytes: bigint,
    origin: FolderSource | undefined,
    call: Call,
  ): Promise<void> {
    const { names, folders, location } = this.#context;
    const tag = spec.source && names.sourceTag(spec.source);
    const folder: SharedFolder = { name: names.share(id), location, description: names.mark("new", tag), bytes };
    try {
      if (origin) await folders.clone(folder, origin.share, origin.snapshot, call.signal);
      else await folders.create(folder, call.signal);
    } catch (error) {
      if (!isAnswer(error, errors.shareExists)) throw error;
      // The existing folder was not created by this call and may be finished by now.
      const text = `another controller is creating the shared folder of volume "${id}"; retrying`;
      throw this.#context.error("aborted", text);
    }
  }

  #refuseFinished({ id, finished }: FolderVolume): void {
    if (finished)
      throw this.#context.error("aborted", `volume "${id}" was finished by another controller meanwhile and is kept`);
  }

  async #origin({ kind, id }: Source, call: Call): Promise<FolderSource> {
    const missing = this.#context.error("not-found", `the source ${kind} "${id.slice(0, 128)}" does not exist`);
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
    const found = await until(this.#context, () => this.find(id, call), patienceMs, call);
    if (found) return found;
    throw this.#context.error("aborted", `DSM is still creating the shared folder of volume "${id}"; retrying`);
  }

  async #known(id: string, call: Call): Promise<FolderVolume> {
    const asset = await this.find(id, call);
    if (asset) return asset;
    throw this.#context.error("aborted", `the shared folder of volume "${id}" has disappeared; retrying`);
  }

  /** The mark holds only a digest of the source, which shows whether it is the requested one. */
  #withSource(asset: FolderVolume, wanted: Source | undefined): FolderVolume {
    const { source: tag } = asset.mark;
    if (tag === undefined) return asset;
    return { ...asset, source: wanted && this.#context.names.sourceTag(wanted) === tag ? wanted : unknownSource };
  }
}
