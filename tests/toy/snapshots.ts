import { CsiError } from "../../lib/core/errors.ts";
import { backendName } from "../../lib/core/name.ts";
import type { Context, Page, PageRequest, Snapshot, SnapshotAbility } from "../../lib/drivers/driver.ts";
import { pageOf } from "../../lib/drivers/pages.ts";
import type { Step, ToySnapshot, ToyStorage } from "./storage.ts";

const told = ({ id, volumeId, bytes, createdAt, group }: ToySnapshot): Snapshot => ({
  id,
  volumeId,
  bytes,
  createdAt,
  ready: true,
  ...(group !== undefined && { group }),
});

/** Snapshots in a Map; each belongs to its volume, which cannot go before it. */
export class ToySnapshots implements SnapshotAbility {
  readonly #storage: ToyStorage;
  readonly #step: Step;
  readonly #maxIdBytes: number;

  constructor(storage: ToyStorage, step: Step, maxIdBytes: number) {
    this.#storage = storage;
    this.#step = step;
    this.#maxIdBytes = maxIdBytes;
  }

  async create(name: string, volumeId: string, _parameters: Context): Promise<Snapshot> {
    const id = backendName(name, this.#maxIdBytes);
    const old = this.#storage.snapshots.get(id);
    if (old && (old.volumeId !== volumeId || old.foreign))
      throw new CsiError("already-exists", `snapshot "${name}" is one of "${old.volumeId}"`);
    if (old) return told(old);
    const volume = this.#storage.volumes.get(volumeId);
    if (!volume || volume.foreign) throw new CsiError("not-found", `volume "${volumeId}" does not exist`);
    const { bytes, content } = volume;
    const made: ToySnapshot = { id, name, volumeId, bytes, createdAt: new Date(), content };
    const { snapshots } = this.#storage;
    await this.#step(() => snapshots.has(id) || snapshots.set(id, made));
    return this.get(id);
  }

  async delete(id: string): Promise<void> {
    const found = this.#storage.snapshots.get(id);
    if (found?.foreign) throw new CsiError("failed-precondition", `snapshot "${id}" was taken by hand; it stays`);
    const { snapshots } = this.#storage;
    // Another controller may have taken one of this name again.
    await this.#step(() => snapshots.get(id) === found && snapshots.delete(id));
  }

  async get(id: string): Promise<Snapshot> {
    const found = this.#storage.snapshots.get(id);
    if (!found || found.foreign) throw new CsiError("not-found", `snapshot "${id}" does not exist`);
    return told(found);
  }

  list(filter: { readonly volumeId: string | undefined }, page: PageRequest): Promise<Page<Snapshot>> {
    const fits = ({ volumeId }: ToySnapshot) => filter.volumeId === undefined || volumeId === filter.volumeId;
    const ours = [...this.#storage.snapshots.values()].filter(({ foreign }) => !foreign);
    const ids = ours.filter(fits).map(({ id }) => id);
    return pageOf(
      ids,
      id => /^[A-Za-z0-9]/.test(id),
      page,
      id => this.get(id),
    );
  }
}
