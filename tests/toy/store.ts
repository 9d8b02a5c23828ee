import { CsiError, isFinal } from "../../lib/core/errors.ts";
import { backendName } from "../../lib/core/name.ts";
import type { Context, Page, PageRequest, Source, VolumeSpec } from "../../lib/drivers/driver.ts";
import type { ErrorMapping } from "../../lib/drivers/failure.ts";
import { pageOf } from "../../lib/drivers/pages.ts";
import { sizeFrom } from "../../lib/drivers/sizes.ts";
import type { Notes, StoredVolume, VolumeStore } from "../../lib/drivers/store.ts";
import { ToyGroups } from "./groups.ts";
import { ToySnapshots } from "./snapshots.ts";
import type { Step, ToyStorage, ToyVolume } from "./storage.ts";

const isId = (text: string): boolean => /^[A-Za-z0-9][A-Za-z0-9_-]*$/.test(text);

/** Volumes in a Map. */
export class ToyStore implements VolumeStore<StoredVolume> {
  readonly clonesFrom = ["volume", "snapshot"] as const;
  readonly snapshots: ToySnapshots;
  readonly groupSnapshots: ToyGroups;
  readonly #storage: ToyStorage;
  readonly #step: Step;
  readonly #maxIdBytes: number;

  constructor(storage: ToyStorage, step: Step, maxIdBytes: number) {
    this.#storage = storage;
    this.#step = step;
    this.#maxIdBytes = maxIdBytes;
    this.snapshots = new ToySnapshots(storage, step, maxIdBytes);
    this.groupSnapshots = new ToyGroups(storage, step, this.snapshots, maxIdBytes);
  }

  idOf(name: string): string {
    return backendName(name, this.#maxIdBytes);
  }

  async create(spec: VolumeSpec): Promise<StoredVolume> {
    const id = this.idOf(spec.name);
    if (this.#isForeign(id))
      throw new CsiError("already-exists", `a volume "${id}" was made by hand; it is not taken over`);
    const standing = this.#asset(id);
    if (standing && this.#storage.volumes.has(id)) return standing;
    const from = spec.source && this.#origin(spec.source);
    const { speed } = checked(spec.mutable);
    const bytes = sizeFrom(spec.range, from?.bytes ?? 0n);
    const { volumes, begun } = this.#storage;
    // What another controller has finished meanwhile is neither begun nor made again, nor undone.
    await this.#step(() => volumes.has(id) || begun.add(id));
    const volume: ToyVolume = {
      id,
      name: spec.name,
      bytes,
      source: spec.source,
      notes: { made: String(this.#storage.made++) },
      content: from?.content,
      speed,
    };
    try {
      await this.#step(() => volumes.has(id) || !begun.has(id) || volumes.set(id, volume));
    } catch (error) {
      // Nothing is left of a creation that fails for good.
      if (isFinal(error)) await this.#step(() => volumes.has(id) || begun.delete(id));
      throw error;
    }
    return this.#known(id);
  }

  async find(id: string): Promise<StoredVolume | undefined> {
    return this.#asset(id);
  }

  async note({ id }: StoredVolume, notes: Notes): Promise<StoredVolume> {
    await this.#step(() => this.#change(id, old => ({ ...old, notes: { ...old.notes, ...notes } })));
    return this.#known(id);
  }

  async finish(asset: StoredVolume, notes: Notes): Promise<StoredVolume> {
    await this.note(asset, notes);
    await this.#step(() => this.#storage.begun.delete(asset.id));
    return this.#known(asset.id);
  }

  #refuseRemoval({ id }: StoredVolume): void {
    if (![...this.#storage.snapshots.values()].some(({ volumeId }) => volumeId === id)) return;
    throw new CsiError("failed-precondition", `volume "${id}" has snapshots; delete them first`);
  }

  async remove(id: string, before: (asset: StoredVolume) => Promise<void>): Promise<void> {
    if (this.#isForeign(id)) throw new CsiError("failed-precondition", `volume "${id}" was made by hand; it stays`);
    const asset = this.#asset(id);
    if (!asset) return;
    this.#refuseRemoval(asset);
    await before(asset);
    // First, so that a partly removed volume is never treated as an unfinished one.
    const { volumes, begun } = this.#storage;
    await this.#step(() => this.#storage.isStill(asset) && volumes.delete(id));
    await this.#step(() => volumes.has(id) || begun.delete(id));
  }

  explain(): ErrorMapping | undefined {
    return undefined;
  }

  async resize({ id }: StoredVolume, bytes: bigint): Promise<StoredVolume> {
    await this.#step(() => this.#change(id, old => ({ ...old, bytes })));
    return this.#known(id);
  }

  async modify({ id }: StoredVolume, properties: Context): Promise<void> {
    const { speed } = checked(properties);
    await this.#step(() => this.#change(id, old => ({ ...old, speed })));
  }

  async available(): Promise<bigint> {
    return this.#storage.free;
  }

  list(page: PageRequest): Promise<Page<StoredVolume>> {
    return pageOf([...this.#storage.volumes.keys()], isId, page, async id => {
      const asset = this.#asset(id);
      return asset?.finished ? asset : undefined;
    });
  }

  #change(id: string, to: (old: ToyVolume) => ToyVolume): void {
    const old = this.#storage.volumes.get(id);
    if (old) this.#storage.volumes.set(id, to(old));
  }

  #origin({ kind, id }: Source): Pick<ToyVolume, "bytes" | "content"> {
    const found = (kind === "volume" ? this.#storage.volumes : this.#storage.snapshots).get(id);
    if (found && !found.foreign) return found;
    throw new CsiError("not-found", `${kind} "${id}" does not exist`);
  }

  #known(id: string): StoredVolume {
    const asset = this.#asset(id);
    if (asset) return asset;
    throw new CsiError("aborted", `volume "${id}" was removed meanwhile; retry`);
  }

  #isForeign(id: string): boolean {
    return this.#storage.volumes.get(id)?.foreign === true;
  }

  #asset(id: string): StoredVolume | undefined {
    const { volumes, begun } = this.#storage;
    const volume = volumes.get(id);
    if ((!volume && !begun.has(id)) || this.#isForeign(id)) return undefined;
    const { name, bytes = 0n, source, notes = {} } = volume ?? {};
    return { id, name, bytes, source, notes, finished: !begun.has(id) };
  }
}

/** The one property that can be changed. Throws "invalid-argument" for another one, or another value. */
function checked({ speed, ...others }: Context): { readonly speed: string | undefined } {
  const wrong = Object.keys(others)[0] ?? (["slow", "fast", undefined].includes(speed) ? undefined : "speed");
  if (wrong === undefined) return { speed };
  throw new CsiError("invalid-argument", `property "${wrong}" cannot be changed, or not to this`);
}
