import type { Access, Protocol } from "../core/access.ts";
import type { Call } from "../core/call.ts";
import type { CopySource, CopyTarget } from "./copying.ts";
import type {
  AdoptAbility,
  CapacityAbility,
  Driver,
  ExpandAbility,
  GroupSnapshotAbility,
  HealthAbility,
  ListAbility,
  LookupAbility,
  ModifyAbility,
  ReadAbility,
  RetentionAbility,
  SnapshotAbility,
  SnapshotMetadataAbility,
  Volume,
  VolumeSpec,
} from "./driver.ts";
import { failure, guarded } from "./failure.ts";
import type { KeptAbility } from "./kept.ts";
import type { ConnectionIdentity } from "./module.ts";
import type { ShareProtocol, StoredVolume, VolumeStore } from "./store.ts";
import { copySourceOf, copyTargetOf, type Guard } from "./store-copying.ts";
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
    const names = { find: "look up volume", discard: "remove what is left of volume" };
    return { idOf: name => this.store.idOf(name), ...this.#named(this.#volumes, names) };
  }

  get reading(): ReadAbility {
    return this.#named(this.#volumes, { get: "read volume" });
  }

  get expand(): ExpandAbility | undefined {
    return this.store.resize && this.#named(this.#volumes, { expand: "expand volume" });
  }

  get snapshots(): SnapshotAbility | undefined {
    const { snapshots } = this.store;
    const names = {
      create: "create snapshot",
      delete: "delete snapshot",
      get: "read snapshot",
      list: "list snapshots",
    };
    return snapshots && this.#named(snapshots, names);
  }

  get groupSnapshots(): GroupSnapshotAbility | undefined {
    const { groupSnapshots } = this.store;
    const names = { create: "create group snapshot", delete: "delete group snapshot", get: "read group snapshot" };
    return groupSnapshots && this.#named(groupSnapshots, names);
  }

  get snapshotMetadata(): SnapshotMetadataAbility | undefined {
    const { snapshotMetadata } = this.store;
    const guard = this.#guard;
    return (
      snapshotMetadata && {
        async *ranges(...asked) {
          const [id, , , call] = asked;
          const parts = snapshotMetadata.ranges(...asked)[Symbol.asyncIterator]();
          try {
            for (;;) {
              const next = await guard("list the blocks of snapshot", id, call, () => parts.next());
              if (next.done) return;
              yield next.value;
            }
          } finally {
            await parts.return?.();
          }
        },
      }
    );
  }

  get modify(): ModifyAbility | undefined {
    return this.store.modify && this.#named(this.#volumes, { modify: "modify volume" });
  }

  get clones(): Driver["clones"] {
    return this.store.clonesFrom && { from: this.store.clonesFrom };
  }

  get capacity(): CapacityAbility | undefined {
    const { store } = this;
    if (!store.available) return undefined;
    const available = async (...given: Parameters<CapacityAbility["available"]>) =>
      (await store.available?.(...given)) ?? 0n;
    return this.#named({ available }, { available: "measure the free space" });
  }

  get inventory(): ListAbility | undefined {
    return this.store.list && this.#named(this.#volumes, { list: "list volumes" });
  }

  get kept(): KeptAbility | undefined {
    return this.store.kept && this.#named(this.store.kept, { list: "read clones and holds" });
  }

  get adoption(): AdoptAbility {
    return this.#named(this.#volumes, { adopt: "adopt" });
  }

  get retention(): RetentionAbility | undefined {
    if (!this.store.tenures) return undefined;
    const { tenancy } = this.#volumes;
    const canTell = this.share.unused !== undefined && this.store.list !== undefined;
    const names = {
      ...{ ofClaim: "look for volumes of claim", take: "adopt volume", giveBack: "give up volume" },
      unused: "ask who uses volume",
    };
    return {
      ...this.#named(tenancy, { release: "give up volume" }),
      claims: canTell ? this.#named(tenancy, names) : undefined,
    };
  }

  get health(): HealthAbility | undefined {
    if (!this.store.look) return undefined;
    const volumes = this.#volumes;
    return {
      ...this.#named(volumes, { look: "check the health of the storage" }),
      ...(volumes.canRestore && this.#named(volumes, { restore: "restore the export or target of volume" })),
    };
  }

  get copySource(): CopySource | undefined {
    const { copySource } = this.store;
    return copySource && copySourceOf(copySource, this.#guard);
  }

  get copyTarget(): CopyTarget | undefined {
    const { copyTarget } = this.store;
    return copyTarget && copyTargetOf(copyTarget, this.#volumes, name => this.store.idOf(name), this.#guard);
  }

  create(spec: VolumeSpec, call: Call): Promise<Volume> {
    return this.#guard("create volume", spec.name, call, () => this.#volumes.create(spec, call));
  }

  delete(id: string, call: Call): Promise<void> {
    return this.#guard("delete volume", id, call, () => this.#volumes.delete(id, call));
  }

  check(call: Call): Promise<void> {
    const doing = "use the storage";
    return this.#guard(doing, "", call, async () => {
      try {
        // The share first: on TrueNAS it names all roles that the account lacks, the store only the first one.
        await this.share.check?.(call);
        await this.store.check?.(call);
      } catch (error) {
        // Also one that csimux does not know shows that the storage answers.
        throw failure(error, this.#volumes, doing);
      }
    });
  }

  async close(): Promise<void> {
    await this.store.close?.();
  }

  readonly #guard: Guard = (doing, object, call, work) => guarded(this.#volumes, doing, object, call, work);

  /**
   * Methods of `part` whose failures say what was being done, and to what: their first argument, if that is a text. The last argument is
   * the call.
   */
  #named<T extends Readonly<Record<K, Method>>, K extends string>(
    part: T,
    doing: Readonly<Record<K, string>>,
  ): Pick<T, K> {
    const named =
      (method: K) =>
      (...given: [...unknown[], Call]) => {
        const object = typeof given[0] === "string" ? given[0] : "";
        const call = given[given.length - 1] as Call;
        return this.#guard(doing[method], object, call, () => part[method](...(given as unknown[] as never[])));
      };
    return Object.fromEntries(Object.keys(doing).map(method => [method, named(method as K)])) as unknown as Pick<T, K>;
  }
}

type Method = (...given: never[]) => Promise<unknown>;
