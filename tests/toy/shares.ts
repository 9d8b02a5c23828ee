import { protocols } from "../../lib/core/access.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { Context, VolumeSpec } from "../../lib/drivers/driver.ts";
import type { Notes, ShareProtocol, StoredVolume } from "../../lib/drivers/store.ts";
import type { Step, ToyStorage } from "./storage.ts";

/** A volume that is reachable as soon as it is there. */
export class ToyFolderShare implements ShareProtocol<StoredVolume> {
  readonly protocol = "hostpath";
  readonly access = protocols.hostpath;
  readonly growsOnNode = false;

  context({ id }: StoredVolume): Context {
    return { path: `/toy/${id}` };
  }
}

/** A target and an extent in two steps; their ids are kept with the volume, because the server gives ids away again. */
export class ToyTargetShare implements ShareProtocol<StoredVolume> {
  readonly protocol = "iscsi";
  readonly access = protocols.iscsi;
  readonly growsOnNode = true;
  readonly #storage: ToyStorage;
  readonly #step: Step;

  constructor(storage: ToyStorage, step: Step) {
    this.#storage = storage;
    this.#step = step;
  }

  async publish(asset: StoredVolume, _spec: VolumeSpec, keep: (notes: Notes) => Promise<StoredVolume>): Promise<Notes> {
    const target = asset.notes["target"] ?? `iqn.toy:${asset.id}`;
    this.#refuseForeign(target, asset.id);
    const kept = await keep({ target });
    const { targets } = this.#storage;
    const isStill = () => this.#storage.isStill(kept);
    if (!targets.has(target)) await this.#step(() => isStill() && targets.set(target, ""));
    await this.#step(() => isStill() && targets.set(target, asset.id));
    return { target, lun: "0" };
  }

  context({ notes }: StoredVolume): Context {
    return { iqn: notes["target"] ?? "", lun: notes["lun"] ?? "" };
  }

  async withdraw(asset: StoredVolume): Promise<void> {
    const target = asset.notes["target"];
    if (target === undefined) return;
    // The server reuses ids: one that belongs to another volume by now is left alone.
    this.#refuseForeign(target, asset.id);
    await this.#step(() => this.#storage.isStill(asset) && this.#storage.targets.delete(target));
  }

  #refuseForeign(target: string, id: string): void {
    const extent = this.#storage.targets.get(target) || id;
    if (extent === id) return;
    throw new CsiError("failed-precondition", `target "${target}" exists already and belongs to "${extent}"`);
  }
}
