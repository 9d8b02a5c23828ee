import type { Access } from "../core/access.ts";
import type { CapacityRange } from "../core/bytes.ts";
import type { Call } from "../core/call.ts";
import type { Protocol } from "../core/protocols.ts";
import type {
  Context,
  Driver,
  Expanded,
  Expanding,
  Findings,
  Found,
  GroupSnapshot,
  GroupSnapshotting,
  Listing,
  Measuring,
  Modifying,
  Naming,
  Observing,
  Page,
  PageRequest,
  Reading,
  Snapshot,
  Snapshotting,
  Volume,
  VolumeSpec,
} from "./driver.ts";
import { guarded, type Subject } from "./failure.ts";
import type { Identity } from "./module.ts";
import type { Asset, Share, VolumeStore } from "./store.ts";
import { StoreVolumes } from "./store-volumes.ts";

/**
 * A driver made of a store and a share; its abilities follow from the members of the store. Every failure gets a code and
 * names the connection. A process may hold thousands of them, so functions exist once and abilities are made when asked for.
 */
export class StoreDriver<A extends Asset> implements Driver {
  readonly protocol: Protocol;
  readonly access: Access;
  readonly local?: true;
  readonly #volumes: StoreVolumes<A>;
  readonly #store: VolumeStore<A>;
  readonly #share: Share<A>;

  /** Does no I/O. `local`: the volumes exist on this node only. */
  constructor(identity: Identity, store: VolumeStore<A>, share: Share<A>, local = false) {
    this.protocol = share.protocol;
    this.access = share.access;
    if (local) this.local = true;
    this.#volumes = new StoreVolumes(identity, store, share);
    this.#store = store;
    this.#share = share;
  }

  get names(): Naming {
    return new Names(this.#volumes, this.#store);
  }

  get reading(): Reading {
    return new Reads(this.#volumes);
  }

  get expand(): Expanding | undefined {
    return this.#store.resize && new Expansion(this.#volumes);
  }

  get snapshots(): Snapshotting | undefined {
    return this.#store.snapshots && new Snapshots(this.#volumes, this.#store.snapshots);
  }

  get groupSnapshots(): GroupSnapshotting | undefined {
    return this.#store.groupSnapshots && new GroupSnapshots(this.#volumes, this.#store.groupSnapshots);
  }

  get modify(): Modifying | undefined {
    return this.#store.modify && new Modification(this.#volumes);
  }

  get clones(): Driver["clones"] {
    return this.#store.clonesFrom && { from: this.#store.clonesFrom };
  }

  get capacity(): Measuring | undefined {
    return this.#store.available && new Capacity(this.#volumes, this.#store);
  }

  get inventory(): Listing | undefined {
    return this.#store.list && new Inventory(this.#volumes);
  }

  get health(): Observing | undefined {
    return this.#store.look && new Health(this.#volumes);
  }

  create(spec: VolumeSpec, call: Call): Promise<Volume> {
    return guarded(this.#volumes, "create volume", spec.name, call, () => this.#volumes.create(spec, call));
  }

  delete(id: string, call: Call): Promise<void> {
    return guarded(this.#volumes, "delete volume", id, call, () => this.#volumes.delete(id, call));
  }

  check(call: Call): Promise<void> {
    return guarded(this.#volumes, "use the storage", "", call, async () => {
      // The share first: on TrueNAS it names every role that the account lacks, the store only the first one it stumbles over.
      await this.#share.check?.(call);
      await this.#store.check?.(call);
    });
  }

  async close(): Promise<void> {
    await this.#store.close?.();
  }
}

class Names<A extends Asset> implements Naming {
  readonly #volumes: StoreVolumes<A>;
  readonly #store: VolumeStore<A>;

  constructor(volumes: StoreVolumes<A>, store: VolumeStore<A>) {
    this.#volumes = volumes;
    this.#store = store;
  }

  idOf(name: string): string {
    return this.#store.idOf(name);
  }

  find(name: string, call: Call): Promise<Found | undefined> {
    return guarded(this.#volumes, "look for volume", name, call, () => this.#volumes.find(name, call));
  }
}

class Reads<A extends Asset> implements Reading {
  readonly #volumes: StoreVolumes<A>;

  constructor(volumes: StoreVolumes<A>) {
    this.#volumes = volumes;
  }

  get(id: string, call: Call): Promise<Volume> {
    return guarded(this.#volumes, "read volume", id, call, () => this.#volumes.get(id, call));
  }
}

class Expansion<A extends Asset> implements Expanding {
  readonly #volumes: StoreVolumes<A>;

  constructor(volumes: StoreVolumes<A>) {
    this.#volumes = volumes;
  }

  expand(id: string, range: CapacityRange, call: Call): Promise<Expanded> {
    return guarded(this.#volumes, "expand volume", id, call, () => this.#volumes.expand(id, range, call));
  }
}

class Inventory<A extends Asset> implements Listing {
  readonly #volumes: StoreVolumes<A>;

  constructor(volumes: StoreVolumes<A>) {
    this.#volumes = volumes;
  }

  list(page: PageRequest, call: Call): Promise<Page<Volume>> {
    return guarded(this.#volumes, "list volumes", "", call, () => this.#volumes.list(page, call));
  }
}

class Health<A extends Asset> implements Observing {
  readonly #volumes: StoreVolumes<A>;

  constructor(volumes: StoreVolumes<A>) {
    this.#volumes = volumes;
  }

  look(call: Call): Promise<Findings> {
    return guarded(this.#volumes, "look at the health of the storage", "", call, () => this.#volumes.look(call));
  }

  get mend(): Observing["mend"] {
    const volumes = this.#volumes;
    return volumes.mends
      ? (id, call) => guarded(volumes, "mend the way to volume", id, call, () => volumes.mend(id, call))
      : undefined;
  }
}

class Capacity<A extends Asset> implements Measuring {
  readonly #subject: Subject;
  readonly #store: VolumeStore<A>;

  constructor(subject: Subject, store: VolumeStore<A>) {
    this.#subject = subject;
    this.#store = store;
  }

  available(parameters: Context, call: Call): Promise<bigint> {
    const work = async () => (await this.#store.available?.(parameters, call)) ?? 0n;
    return guarded(this.#subject, "measure the free space", "", call, work);
  }
}

class Modification<A extends Asset> implements Modifying {
  readonly #volumes: StoreVolumes<A>;

  constructor(volumes: StoreVolumes<A>) {
    this.#volumes = volumes;
  }

  modify(id: string, properties: Context, call: Call): Promise<void> {
    return guarded(this.#volumes, "modify volume", id, call, () => this.#volumes.modify(id, properties, call));
  }
}

class GroupSnapshots implements GroupSnapshotting {
  readonly #subject: Subject;
  readonly #store: GroupSnapshotting;

  constructor(subject: Subject, store: GroupSnapshotting) {
    this.#subject = subject;
    this.#store = store;
  }

  create(name: string, volumeIds: readonly string[], parameters: Context, call: Call): Promise<GroupSnapshot> {
    const work = () => this.#store.create(name, volumeIds, parameters, call);
    return guarded(this.#subject, "create group snapshot", name, call, work);
  }

  delete(id: string, snapshotIds: readonly string[], call: Call): Promise<void> {
    const work = () => this.#store.delete(id, snapshotIds, call);
    return guarded(this.#subject, "delete group snapshot", id, call, work);
  }

  get(id: string, snapshotIds: readonly string[], call: Call): Promise<GroupSnapshot> {
    const work = () => this.#store.get(id, snapshotIds, call);
    return guarded(this.#subject, "read group snapshot", id, call, work);
  }
}

class Snapshots implements Snapshotting {
  readonly #subject: Subject;
  readonly #store: Snapshotting;

  constructor(subject: Subject, store: Snapshotting) {
    this.#subject = subject;
    this.#store = store;
  }

  create(name: string, volumeId: string, parameters: Context, call: Call): Promise<Snapshot> {
    const work = () => this.#store.create(name, volumeId, parameters, call);
    return guarded(this.#subject, "create snapshot", name, call, work);
  }

  delete(id: string, call: Call): Promise<void> {
    return guarded(this.#subject, "delete snapshot", id, call, () => this.#store.delete(id, call));
  }

  get(id: string, call: Call): Promise<Snapshot> {
    return guarded(this.#subject, "read snapshot", id, call, () => this.#store.get(id, call));
  }

  list(filter: { readonly volumeId: string | undefined }, page: PageRequest, call: Call): Promise<Page<Snapshot>> {
    return guarded(this.#subject, "list snapshots", "", call, () => this.#store.list(filter, page, call));
  }
}
