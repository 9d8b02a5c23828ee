import type { Call } from "../../core/call.ts";
import { findingsOf } from "../../health/finding.ts";
import type { Context, Page, PageRequest, VolumeSpec } from "../driver.ts";
import { afterFailure, type ErrorMapping } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { wholeUnits } from "../sizes.ts";
import type { HealthInspection, Notes, VolumeStore } from "../store.ts";
import { makeEmpty, makeFrom } from "./creation.ts";
import { DatasetGroupSnapshots } from "./group-snapshots.ts";
import { isVolumeId } from "./names.ts";
import { contextText, noteProperty, property, refuseUnfit } from "./properties.ts";
import { removeVolume } from "./removal.ts";
import { DatasetSnapshots } from "./snapshots.ts";
import { removeLeft } from "./sources.ts";
import type { ConnectionContext } from "./storage.ts";
import { changes, sizeValues } from "./values.ts";
import {
  bytesOf,
  conditionProperties,
  datasetFindings,
  isSuspended,
  parentFindings,
  poolFindings,
  shownValue,
  volumeIn,
  volumePropertyNames,
  volumeQuery,
  type ZfsVolume,
} from "./volume.ts";
import { ZfsError } from "./zfs.ts";

/** Nothing for a pool that is suspended. Throws every other failure. */
function unlessSuspended(error: unknown): undefined {
  if (!(error instanceof ZfsError && error.failure === "suspended")) throw error;
}

const clonable = ["volume", "snapshot"] as const;

/** Volumes as datasets or zvols: direct children of one dataset, with what is known of them in their user properties. */
export class DatasetStore implements VolumeStore<ZfsVolume> {
  readonly clonesFrom = clonable;
  readonly snapshots: DatasetSnapshots;
  readonly groupSnapshots: DatasetGroupSnapshots | undefined;
  /** ZFS shares by itself when it mounts; this is for what was lost since then. */
  readonly restore: VolumeStore<ZfsVolume>["restore"];
  readonly #space: ConnectionContext;
  readonly #close: () => Promise<void>;

  /** `close` is called when nobody needs the store any more. */
  constructor(space: ConnectionContext, close: () => Promise<void>) {
    this.#space = space;
    this.#close = close;
    this.snapshots = new DatasetSnapshots(space);
    const { zfs, settings } = space;
    const { sharenfs, sharesmb } = settings.sharing;
    const exports = (sharenfs ?? sharesmb) !== undefined && zfs.share !== undefined;
    this.restore = exports ? async ({ dataset }, { signal }) => zfs.share?.(dataset, signal) : undefined;
    this.groupSnapshots = space.zfs.together ? new DatasetGroupSnapshots(space) : undefined;
  }

  idOf(name: string): string {
    return this.#space.names.idOf(name);
  }

  async create(spec: VolumeSpec, call: Call): Promise<ZfsVolume> {
    const { source } = spec;
    await this.#space.zfs.ready?.(call.signal);
    try {
      return await (source ? makeFrom(this.#space, { ...spec, source }, call) : makeEmpty(this.#space, spec, call));
    } catch (error) {
      const doing = `create volume "${spec.name.slice(0, 160)}"`;
      throw await afterFailure(error, () => this.#undo(spec, call), this.#space, doing, call);
    }
  }

  async find(id: string, call: Call): Promise<ZfsVolume | undefined> {
    if (!isVolumeId(id)) return undefined;
    const { zfs, settings, names } = this.#space;
    const entries = await zfs.read(volumeQuery(settings, names, id), call.signal);
    return volumeIn(id, entries.get(names.dataset(id)), settings);
  }

  async note(asset: ZfsVolume, notes: Notes, call: Call): Promise<ZfsVolume> {
    const values = Object.fromEntries(Object.entries(notes).map(([key, value]) => [noteProperty(key), value]));
    for (const [name, value] of Object.entries(values)) refuseUnfit(name, value);
    await this.#space.zfs.set(asset.dataset, values, call.signal);
    return { ...asset, notes: { ...asset.notes, ...notes } };
  }

  async finish(asset: ZfsVolume, notes: Notes, call: Call): Promise<ZfsVolume> {
    const { settings, zfs } = this.#space;
    const isKey = ([key]: readonly [string, string]) => settings.noteKeys.includes(key);
    const all = Object.entries(notes);
    const kept = all.filter(isKey).map(([key, value]) => [noteProperty(key), value]);
    const context = Object.fromEntries(all.filter(each => !isKey(each)));
    const values: Readonly<Record<string, string>> = {
      ...Object.fromEntries(kept),
      [property.context]: contextText({ node_attach_driver: settings.protocol, ...context }),
      [property.success]: "true",
    };
    for (const [name, value] of Object.entries(values)) refuseUnfit(name, value);
    await zfs.set(asset.dataset, values, call.signal);
    return { ...asset, notes: { ...asset.notes, ...notes }, finished: true };
  }

  async remove(id: string, before: (asset: ZfsVolume) => Promise<void>, call: Call): Promise<void> {
    await removeVolume(this.#space, id, before, call);
  }

  explain(error: unknown): ErrorMapping | undefined {
    return this.#space.explain(error);
  }

  async resize(asset: ZfsVolume, bytes: bigint, limit: bigint | undefined, call: Call): Promise<ZfsVolume> {
    const { settings, zfs } = this.#space;
    if (settings.volumes.type === "filesystem") {
      await zfs.set(asset.dataset, sizeValues(settings, bytes), call.signal);
      return { ...asset, bytes };
    }
    const whole = wholeUnits(bytes, asset.block || 1n, limit);
    const thick = settings.volumes.thick ? { refreservation: "auto" } : {};
    await zfs.set(asset.dataset, { volsize: String(whole), ...thick }, call.signal);
    return { ...asset, bytes: whole };
  }

  async modify(asset: ZfsVolume, properties: Context, call: Call): Promise<void> {
    const { settings, zfs } = this.#space;
    const values = changes(properties, settings);
    if (Object.keys(values).length > 0) await zfs.set(asset.dataset, values, call.signal);
  }

  /** What the parent has left; while it does not exist, what is left above it. */
  async available(_parameters: Context, call: Call): Promise<bigint> {
    const { names, zfs } = this.#space;
    const parts = names.parent.split("/");
    const above = parts.map((_, at) => parts.slice(0, at + 1).join("/"));
    const entries = await zfs.read({ names: above, properties: ["available"] }, call.signal);
    const nearest = above.filter(name => entries.has(name)).at(-1) ?? "";
    return bytesOf(shownValue(entries.get(nearest), "available"));
  }

  async list(page: PageRequest, call: Call): Promise<Page<ZfsVolume>> {
    const { names, settings, zfs } = this.#space;
    const entries = await zfs.below(
      names.parent,
      [settings.volumes.type],
      volumePropertyNames(settings),
      1,
      call.signal,
    );
    const assets = new Map(
      entries.flatMap(entry => {
        const id = names.volumeOf(entry.name);
        const asset = id === undefined ? undefined : volumeIn(id, entry, settings);
        return asset?.finished ? [[asset.id, asset] as const] : [];
      }),
    );
    return pageOf([...assets.keys()], isVolumeId, page, async id => assets.get(id));
  }

  /** Asks the pools, and lists all datasets once; those of a suspended pool would not answer. */
  async look(call: Call): Promise<HealthInspection<ZfsVolume>> {
    const { names, settings, zfs } = this.#space;
    const detached = names.detachedParent.split("/")[0] ?? "";
    const states = await zfs.pools([...new Set([names.pool, detached])], call.signal);
    const pools = poolFindings(states);
    if (isSuspended(states)) return { storage: pools, volumes: new Map(), assets: [] };
    const properties = [...new Set([...volumePropertyNames(settings), ...conditionProperties])];
    const kinds = [...new Set(["filesystem", settings.volumes.type] as const)];
    const entries = await zfs.below(names.parent, kinds, properties, 1, call.signal).catch(unlessSuspended);
    if (!entries) {
      // OpenZFS 2.1 goes on to call such a pool ONLINE.
      const suspended = new Map([...states, [names.pool, "SUSPENDED"]]);
      return { storage: poolFindings(suspended), volumes: new Map(), assets: [] };
    }
    const exported = settings.sharing["sharenfs"] === undefined ? undefined : await zfs.exported?.(call.signal);
    const above = parentFindings(entries.find(({ name }) => name === names.parent));
    const found = entries.flatMap(entry => {
      const id = names.volumeOf(entry.name);
      const asset = id === undefined ? undefined : volumeIn(id, entry, settings);
      if (!asset?.finished) return [];
      return [{ asset, findings: datasetFindings(asset, entry, settings, above.length > 0, exported) }];
    });
    return {
      storage: [...pools, ...above],
      volumes: findingsOf(found.map(({ asset, findings }) => [asset.id, findings])),
      assets: found.map(({ asset }) => asset),
    };
  }

  /** Whether zfs can be called and the pools are there. */
  async check(call: Call): Promise<void> {
    const { names, zfs } = this.#space;
    const detached = names.detachedParent.split("/")[0] ?? "";
    await zfs.read({ names: [...new Set([names.pool, detached])], properties: ["type"] }, call.signal);
  }

  close(): Promise<void> {
    return this.#close();
  }

  /** Removes what a failed creation left. What stands there for another request stays. */
  async #undo(spec: VolumeSpec, call: Call): Promise<boolean> {
    const id = this.idOf(spec.name);
    const others = new Error("what stands there is of another request");
    const refuseOthers = async ({ finished, name }: ZfsVolume) => {
      if (finished || name !== spec.name) throw others;
    };
    try {
      if (await this.find(id, call)) await this.remove(id, refuseOthers, call);
      else await removeLeft(this.#space, id, spec.source !== undefined, call);
    } catch (error) {
      if (error !== others) throw error;
    }
    return true;
  }
}
