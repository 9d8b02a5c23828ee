import type { CapacityRange } from "../../core/bytes.ts";
import type { Call } from "../../core/call.ts";
import type { Context, Driver, Page, PageRequest, Snapshot, Volume } from "../driver.ts";
import { failure } from "./failures.ts";
import type { Snapshots } from "./snapshots.ts";
import { present, type Space, stillWanted } from "./space.ts";
import type { Volumes } from "./volumes.ts";

/** Runs one operation; every failure of it gets its code and a message that names connection and object. */
export async function guarded<T>(
  space: Space,
  doing: string,
  name: string,
  call: Call,
  work: () => Promise<T>,
): Promise<T> {
  try {
    stillWanted(space, call);
    if (space.choose) space.files = await space.choose(space.layout.base);
    return await work();
  } catch (error) {
    throw failure(error, space.connection, name === "" ? doing : `${doing} "${name.slice(0, 160)}"`);
  }
}

type Ability<K extends keyof Driver> = NonNullable<Driver[K]>;

/** As Driver.expand. */
export class Expansion implements Ability<"expand"> {
  readonly #space: Space;
  readonly #volumes: Volumes;

  constructor(space: Space, volumes: Volumes) {
    this.#space = space;
    this.#volumes = volumes;
  }

  async expand(id: string, range: CapacityRange, call: Call): Promise<{ bytes: bigint; onNode: boolean }> {
    const bytes = await guarded(this.#space, "expand volume", id, call, () => this.#volumes.expand(id, range));
    return { bytes, onNode: false };
  }
}

/** As Driver.inventory. */
export class Inventory implements Ability<"inventory"> {
  readonly #space: Space;
  readonly #volumes: Volumes;

  constructor(space: Space, volumes: Volumes) {
    this.#space = space;
    this.#volumes = volumes;
  }

  list(page: PageRequest, call: Call): Promise<Page<Volume>> {
    return guarded(this.#space, "list volumes", "", call, () => this.#volumes.list(page, call));
  }
}

/** As Driver.capacity: what the file system of the base folder has left. */
export class Capacity implements Ability<"capacity"> {
  readonly #space: Space;

  constructor(space: Space) {
    this.#space = space;
  }

  available(_parameters: Context, call: Call): Promise<bigint> {
    return guarded(this.#space, "measure the free space", "", call, async () => {
      await present(this.#space, "first");
      return (await this.#space.files.statfs(this.#space.layout.base)).availableBytes;
    });
  }
}

/** As Driver.snapshots. */
export class SnapshotAbility implements Ability<"snapshots"> {
  readonly #space: Space;
  readonly #snapshots: Snapshots;

  constructor(space: Space, snapshots: Snapshots) {
    this.#space = space;
    this.#snapshots = snapshots;
  }

  create(name: string, volumeId: string, parameters: Context, call: Call): Promise<Snapshot> {
    const work = () => this.#snapshots.create(name, volumeId, parameters, call);
    return guarded(this.#space, "create snapshot", name, call, work);
  }

  delete(id: string, call: Call): Promise<void> {
    return guarded(this.#space, "delete snapshot", id, call, () => this.#snapshots.delete(id, call));
  }

  get(id: string, call: Call): Promise<Snapshot> {
    return guarded(this.#space, "read snapshot", id, call, () => this.#snapshots.get(id));
  }

  list(filter: { readonly volumeId: string | undefined }, page: PageRequest, call: Call): Promise<Page<Snapshot>> {
    const work = () => this.#snapshots.list(filter.volumeId, page, call);
    return guarded(this.#space, "list snapshots", "", call, work);
  }
}
