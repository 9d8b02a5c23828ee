import type { CapacityRange } from "../core/bytes.ts";
import { type Call, withSignal } from "../core/call.ts";
import { CsiError, hasCode } from "../core/errors.ts";
import { TryLocks } from "../core/locks.ts";
import { joined } from "../health/finding.ts";
import type { CopySpec, SourceSnapshot, StillHeld } from "./copying.ts";
import type {
  AdoptedVolume,
  Context,
  ExpansionResult,
  FoundVolume,
  Page,
  PageRequest,
  StorageFindings,
  Volume,
  VolumeSpec,
} from "./driver.ts";
import { afterFailure, type ErrorMapping, type FailureContext } from "./failure.ts";
import type { ConnectionIdentity } from "./module.ts";
import { checkSameRequest, grownSize } from "./sizes.ts";
import type { Notes, ShareProtocol, StoredVolume, VolumeStore } from "./store.ts";
import { absent, adoptedObject, type VolumeParts, volumeOf } from "./store-adoption.ts";
import { keptAgain, removedOrReleased, type Tenancy, tenancyOf } from "./store-tenures.ts";

/** The time limit for sharing a volume again after its deletion failed, in milliseconds. */
const shareAgainMs = 60_000;

/** The volumes of a store that a share makes reachable, with the promises of every family about repeated and concurrent calls. */
export class StoreVolumes<A extends StoredVolume> implements FailureContext {
  readonly connection: string;
  readonly #identity: ConnectionIdentity;
  readonly #store: VolumeStore<A>;
  readonly #share: ShareProtocol<A>;
  readonly #locks = new TryLocks();

  constructor(identity: ConnectionIdentity, store: VolumeStore<A>, share: ShareProtocol<A>) {
    this.connection = identity.connection;
    this.#identity = identity;
    this.#store = store;
    this.#share = share;
  }

  explain(error: unknown): ErrorMapping | undefined {
    return this.#store.explain(error) ?? this.#share.explain?.(error);
  }

  hidden(): string | undefined {
    return this.#store.hidden?.();
  }

  create(spec: VolumeSpec, call: Call): Promise<Volume> {
    return this.#alone(this.#store.idOf(spec.name), async () => {
      const made = await this.#store.create(spec, call);
      checkSameRequest(this.connection, this.#store, spec, made);
      const asset = await keptAgain(this.#parts, made, call);
      try {
        return this.#volume(await this.#completed(asset, spec, call));
      } catch (error) {
        let isThere = false;
        const check = (found: A) => {
          isThere = true;
          refuseFinished(found);
        };
        const undo = async () => {
          if (asset.finished) return false;
          await this.#remove(asset.id, check, call);
          // If another controller has removed it, that may be why this failed; a retry makes it again.
          return isThere;
        };
        throw await afterFailure(error, undo, this, `create volume "${spec.name.slice(0, 160)}"`, call);
      }
    });
  }

  delete(id: string, call: Call): Promise<void> {
    return this.#alone(id, () => removedOrReleased(this.#parts, id, check => this.#remove(id, check, call), call));
  }

  /** Like LookupAbility.discard. */
  discard(id: string, call: Call): Promise<void> {
    return this.#alone(id, () => this.#remove(id, refuseFinished, call));
  }

  /** Like CopyTarget.existing. */
  async existing(spec: CopySpec, call: Call): Promise<Volume | undefined> {
    const asset = await this.#store.find(this.#store.idOf(spec.name), call);
    if (!asset?.finished) return undefined;
    checkSameRequest(this.connection, this.#store, spec, asset);
    return this.#volume(asset);
  }

  /** Like CopyTarget.finish. A failure leaves everything as it is, for the next attempt or for `drop`. */
  finish(id: string, spec: CopySpec, snapshot: SourceSnapshot, stillHeld: StillHeld, call: Call): Promise<Volume> {
    return this.#alone(id, async () => {
      const asset = await this.#store.copyTarget?.complete(id, spec, snapshot, stillHeld, call);
      if (!asset) throw this.#absent(id);
      checkSameRequest(this.connection, this.#store, spec, asset);
      return this.#volume(await this.#completed(asset, spec, call));
    });
  }

  /** Like CopyTarget.empty. */
  empty(id: string, call: Call): Promise<void> {
    return this.#unmade(id, async () => this.#store.copyTarget?.empty(id, call), call);
  }

  /** Like CopyTarget.drop. */
  drop(id: string, call: Call): Promise<void> {
    return this.#unmade(id, async () => this.#store.copyTarget?.drop(id, call), call);
  }

  /** Removes the beginnings of a volume that was being copied, then what `work` removes. */
  #unmade(id: string, work: () => Promise<void>, call: Call): Promise<void> {
    return this.#alone(id, async () => {
      const asset = await this.#store.find(id, call);
      if (asset?.finished) {
        const text = `volume "${id.slice(0, 128)}" is complete; delete it instead`;
        throw new CsiError("failed-precondition", `connection "${this.connection}": ${text}`);
      }
      if (asset?.copyOf) await this.#remove(id, refuseFinished, call);
      await work();
    });
  }

  async get(id: string, call: Call): Promise<Volume> {
    const asset = await this.#store.find(id, call);
    if (asset?.finished) return this.#volume(asset);
    throw this.#absent(id);
  }

  async find(name: string, call: Call): Promise<FoundVolume | undefined> {
    const asset = await this.#store.find(this.#store.idOf(name), call);
    if (!asset) return undefined;
    if (!asset.finished) return { kind: "unfinished", id: asset.id };
    const other = asset.name !== undefined && asset.name !== name;
    return other ? undefined : { kind: "volume", volume: this.#volume(asset) };
  }

  expand(id: string, range: CapacityRange, call: Call): Promise<ExpansionResult> {
    return this.#alone(id, async () => {
      const asset = await this.#store.find(id, call);
      if (!asset?.finished || !this.#store.resize) throw this.#absent(id);
      const wanted = grownSize(id, asset.bytes, range);
      const isEqual = wanted === asset.bytes && !asset.partlyResized;
      const grown = isEqual ? asset : await this.#store.resize(asset, wanted, range.limit, call);
      // Even if nothing grew: an earlier call may have ended after the first half.
      await this.#share.resized?.(grown, call);
      return { bytes: grown.bytes, onNode: this.#share.growsOnNode };
    });
  }

  modify(id: string, properties: Context, call: Call): Promise<void> {
    return this.#alone(id, async () => {
      const asset = await this.#store.find(id, call);
      if (!asset?.finished) throw this.#absent(id);
      await this.#store.modify?.(asset, properties, call);
    });
  }

  async list(page: PageRequest, call: Call): Promise<Page<Volume>> {
    const { items, next } = (await this.#store.list?.(page, call)) ?? { items: [], next: undefined };
    return { items: items.map(asset => this.#volume(asset)), next };
  }

  async look(call: Call): Promise<StorageFindings> {
    const seen = await this.#store.look?.(call);
    if (!seen) return { storage: [], volumes: new Map(), example: undefined };
    const { storage, volumes, assets } = seen;
    const shares = (await this.#share.look?.(assets, call)) ?? new Map();
    const [first] = assets;
    return { storage, volumes: joined([volumes, shares]), example: first && this.#volume(first).context };
  }

  /** Whether missing exports or targets can be restored. */
  get canRestore(): boolean {
    return this.#store.restore !== undefined || this.#share.restore !== undefined;
  }

  restore(id: string, call: Call): Promise<void> {
    return this.#alone(id, async () => {
      const asset = await this.#store.find(id, call);
      if (!asset?.finished) return;
      await this.#store.restore?.(asset, call);
      await this.#share.restore?.(asset, call);
    });
  }

  /** Like AdoptAbility.adopt. */
  adopt(object: string, mark: boolean, call: Call): Promise<AdoptedVolume> {
    return adoptedObject(this.#parts, object, mark, call);
  }

  /** Whose volumes are. */
  get tenancy(): Tenancy {
    return tenancyOf(this.#parts, (asset, call) => this.#completed(asset, specOf(asset), call));
  }

  /** What the functions about claims and objects need. */
  get #parts(): VolumeParts<A> {
    return {
      ...{ identity: this.#identity, store: this.#store, share: this.#share },
      alone: (id, work) => this.#alone(id, work),
    };
  }

  async #completed(asset: A, spec: VolumeSpec, call: Call): Promise<A> {
    let kept = asset;
    const keep = async (notes: Notes): Promise<A> => {
      if (this.#store.note) kept = await this.#store.note(kept, notes, call);
      return kept;
    };
    if (asset.finished) await this.#store.restore?.(asset, call);
    const notes = (await this.#share.publish?.(asset, spec, keep, call)) ?? {};
    return kept.finished && holds(kept.notes, notes) ? kept : await this.#store.finish(kept, notes, call);
  }

  /** `check` throws for an asset that must stay. */
  async #remove(id: string, check: (asset: A) => void, call: Call): Promise<void> {
    let withdrawn: A | undefined;
    const before = async (asset: A, withShare = false) => {
      check(asset);
      if (!this.#share.withdraw) return;
      withdrawn = asset;
      if (withShare) return;
      await this.#share.withdraw(asset, call).catch((error: unknown) => {
        // Refused before anything changed, see ShareProtocol.withdraw.
        if (hasCode(error, "failed-precondition")) withdrawn = undefined;
        throw error;
      });
    };
    try {
      await this.#store.remove(id, before, call);
    } catch (error) {
      // Also one that was unfinished: another controller may have finished it meanwhile.
      if (withdrawn) await this.#shareAgain(withdrawn, call);
      throw error;
    }
  }

  /** After a failed deletion: pods may still use the volume. With a new signal, because that of the call may have ended the deletion. */
  async #shareAgain({ id }: A, call: Call): Promise<void> {
    const fresh = withSignal(call, AbortSignal.timeout(shareAgainMs));
    try {
      const asset = await this.#store.find(id, fresh);
      if (asset?.finished) await this.#completed(asset, specOf(asset), fresh);
    } catch (cause) {
      call.log.warn("DeleteVolume failed after the export was removed, and the export could not be restored", {
        volume: id,
        cause,
      });
    }
  }

  #alone<T>(id: string, work: () => Promise<T>): Promise<T> {
    return this.#locks.hold([id], work);
  }

  readonly #absent = (id: string): CsiError => absent(this.#parts, id);

  #volume(asset: A): Volume {
    return volumeOf(this.#parts, asset);
  }
}

/** The request for an existing volume, as far as a share needs it. */
const specOf = ({ id, name, source }: StoredVolume): VolumeSpec => ({
  name: name ?? id,
  range: { required: undefined, limit: undefined },
  parameters: {},
  source,
  mutable: {},
});

/** Throws for a volume that another controller has finished meanwhile. */
function refuseFinished({ id, finished }: StoredVolume): void {
  if (finished) throw new CsiError("aborted", `volume "${id}" was finished by another controller meanwhile; it stays`);
}

/** Whether `all` contains `some`. */
const holds = (all: Notes, some: Notes): boolean => Object.entries(some).every(([key, value]) => all[key] === value);
