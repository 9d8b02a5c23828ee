import type { Access, Protocol } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import type { GivingAbility, TakingAbility } from "./copying.ts";
import type {
  AdoptAbility,
  CapacityAbility,
  Context,
  Driver,
  ExpandAbility,
  GroupSnapshotAbility,
  HealthAbility,
  ListAbility,
  LookupAbility,
  ModifyAbility,
  ReadAbility,
  SnapshotAbility,
  Volume,
  VolumeSpec,
} from "./driver.ts";
import { guarded } from "./failure.ts";
import type { ConnectionIdentity } from "./module.ts";
import type { ShareProtocol, StoredVolume, VolumeStore } from "./store.ts";
import { type Guard, givingOf, takingOf } from "./store-copying.ts";
import { StoreVolumes } from "./store-volumes.ts";

/**
 * A driver composed of a store and a share; its abilities follow from the members of the store. Every failure gets a code and names the
 * connection. A process may have thousands of drivers, so abilities are created on demand.
 */
export class StoreDriver<A extends StoredVolume> implements Driver {
  readonly protocol: Protocol;
  readonly access: Access;
  readonly #volumes: StoreVolumes<A>;
  readonly store: VolumeStore<A>;
  readonly share: ShareProtocol<A>;

  /** Does no I/O. */
  constructor(identity: ConnectionIdentity, store: VolumeStore<A>, share: ShareProtocol<A>) {
    this.protocol = share.protocol;
    this.access = share.access;
    this.#volumes = new StoreVolumes(identity, store, share);
    this.store = store;
    this.share = share;
  }

  get names(): LookupAbility {
    return {
      idOf: name => this.store.idOf(name),
      find: (name, call) => this.#guard("look up volume", name, call, () => this.#volumes.find(name, call)),
      discard: (id, call) =>
        this.#guard("remove what is left of volume", id, call, () => this.#volumes.discard(id, call)),
    };
  }

  get reading(): ReadAbility {
    return { get: (id, call) => this.#guard("read volume", id, call, () => this.#volumes.get(id, call)) };
  }

  get expand(): ExpandAbility | undefined {
    if (!this.store.resize) return undefined;
    return {
      expand: (id, range, call) => this.#guard("expand volume", id, call, () => this.#volumes.expand(id, range, call)),
    };
  }

  get snapshots(): SnapshotAbility | undefined {
    const store = this.store.snapshots;
    if (!store) return undefined;
    return {
      create: (name, volumeId, parameters, call) =>
        this.#guard("create snapshot", name, call, () => store.create(name, volumeId, parameters, call)),
      delete: (id, call) => this.#guard("delete snapshot", id, call, () => store.delete(id, call)),
      get: (id, call) => this.#guard("read snapshot", id, call, () => store.get(id, call)),
      list: (filter, page, call) => this.#guard("list snapshots", "", call, () => store.list(filter, page, call)),
    };
  }

  get groupSnapshots(): GroupSnapshotAbility | undefined {
    const store = this.store.groupSnapshots;
    if (!store) return undefined;
    return {
      create: (name, volumeIds, parameters, call) =>
        this.#guard("create group snapshot", name, call, () => store.create(name, volumeIds, parameters, call)),
      delete: (id, snapshotIds, call) =>
        this.#guard("delete group snapshot", id, call, () => store.delete(id, snapshotIds, call)),
      get: (id, snapshotIds, call) =>
        this.#guard("read group snapshot", id, call, () => store.get(id, snapshotIds, call)),
    };
  }

  get modify(): ModifyAbility | undefined {
    if (!this.store.modify) return undefined;
    return {
      modify: (id, properties, call) =>
        this.#guard("modify volume", id, call, () => this.#volumes.modify(id, properties, call)),
    };
  }

  get clones(): Driver["clones"] {
    return this.store.clonesFrom && { from: this.store.clonesFrom };
  }

  get capacity(): CapacityAbility | undefined {
    if (!this.store.available) return undefined;
    const work = async (parameters: Context, call: Call) => (await this.store.available?.(parameters, call)) ?? 0n;
    return {
      available: (parameters, call) => this.#guard("measure the free space", "", call, () => work(parameters, call)),
    };
  }

  get inventory(): ListAbility | undefined {
    if (!this.store.list) return undefined;
    return { list: (page, call) => this.#guard("list volumes", "", call, () => this.#volumes.list(page, call)) };
  }

  get adoption(): AdoptAbility {
    const volumes = this.#volumes;
    return {
      adopt: (object, mark, call) => this.#guard("adopt", object, call, () => volumes.adopt(object, mark, call)),
    };
  }

  get health(): HealthAbility | undefined {
    if (!this.store.look) return undefined;
    const volumes = this.#volumes;
    return {
      look: call => this.#guard("check the health of the storage", "", call, () => volumes.look(call)),
      ...(volumes.canRestore && {
        restore: (id: string, call: Call) =>
          this.#guard("restore the export or target of volume", id, call, () => volumes.restore(id, call)),
      }),
    };
  }

  get giving(): GivingAbility | undefined {
    return this.store.moments && givingOf(this.store.moments, this.#guard);
  }

  get taking(): TakingAbility | undefined {
    return (
      this.store.landings && takingOf(this.store.landings, this.#volumes, name => this.store.idOf(name), this.#guard)
    );
  }

  create(spec: VolumeSpec, call: Call): Promise<Volume> {
    return this.#guard("create volume", spec.name, call, () => this.#volumes.create(spec, call));
  }

  delete(id: string, call: Call): Promise<void> {
    return this.#guard("delete volume", id, call, () => this.#volumes.delete(id, call));
  }

  check(call: Call): Promise<void> {
    return this.#guard("use the storage", "", call, async () => {
      // The share first: on TrueNAS it names all roles that the account lacks, the store only the first one.
      await this.share.check?.(call);
      await this.store.check?.(call);
    });
  }

  async close(): Promise<void> {
    await this.store.close?.();
  }

  readonly #guard: Guard = (doing, object, call, work) => guarded(this.#volumes, doing, object, call, work);
}
