import type { Call } from "../../core/call.ts";
import { findingsOf } from "../../health/finding.ts";
import type { VolumeSpec } from "../driver.ts";
import { afterFailure } from "../failure.ts";
import { pageOf } from "../pages.ts";
import { wholeUnits } from "../sizes.ts";
import type { Notes, VolumeStore } from "../store.ts";
import { makeVolume } from "./creation.ts";
import { datasetGroupSnapshots } from "./group-snapshots.ts";
import { datasetLandings } from "./landings.ts";
import { datasetMoments } from "./moments.ts";
import { isVolumeId } from "./names.ts";
import {
  bytesOf,
  contextText,
  markValues,
  noteProperty,
  property,
  refuseUnfit,
  shownValue,
  whyNotMarked,
} from "./properties.ts";
import { removeVolume } from "./removal.ts";
import { datasetSnapshots } from "./snapshots.ts";
import { dropSources, removeStaging } from "./sources.ts";
import { type ZfsStorage, zfsErrorMapping } from "./storage.ts";
import { mutableValues, sizeValues } from "./values.ts";
import {
  conditionProperties,
  datasetFindings,
  isSuspended,
  parentFindings,
  poolFindings,
  volumeIn,
  volumeOf,
  volumePropertyNames,
  volumeQuery,
  type ZfsVolume,
} from "./volume.ts";
import { type Entry, ZfsError } from "./zfs.ts";

/** Undefined for a suspended pool. Throws every other failure. */
function unlessSuspended(error: unknown): undefined {
  if (!(error instanceof ZfsError && error.failure === "suspended")) throw error;
}

const clonable = ["volume", "snapshot"] as const;

const noteValues = (notes: Notes): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(notes).map(([key, value]) => [noteProperty(key), value]));

/** Volumes as children of one dataset, described by their user properties. `close` is called when the store is not needed any more. */
export function datasetStore(storage: ZfsStorage, close: () => Promise<void>): VolumeStore<ZfsVolume> {
  const { zfs, names, settings, identity } = storage;
  const { sharenfs, sharesmb } = settings.sharing;
  const { type } = settings.volumes;
  const idOf = (name: string): string => names.idOf(name);

  async function find(id: string, { signal }: Call): Promise<ZfsVolume | undefined> {
    if (!isVolumeId(id)) return undefined;
    const entries = await zfs.read(volumeQuery(settings, names, id), signal);
    return volumeIn(id, entries.get(names.dataset(id)), settings);
  }

  async function set(
    { dataset }: ZfsVolume,
    values: Readonly<Record<string, string>>,
    { signal }: Call,
  ): Promise<void> {
    refuseUnfit(values);
    await zfs.set(dataset, values, signal);
  }

  function finishedValues(notes: Notes): Readonly<Record<string, string>> {
    const isKey = ([key]: readonly [string, string]) => settings.noteKeys.includes(key);
    const all = Object.entries(notes);
    const context = Object.fromEntries(all.filter(each => !isKey(each)));
    return {
      ...noteValues(Object.fromEntries(all.filter(isKey))),
      [property.context]: contextText({ node_attach_driver: settings.protocol, ...context }),
      [property.success]: "true",
    };
  }

  const finishedIn = (entries: readonly Entry[]) =>
    entries.flatMap(entry => {
      const id = names.volumeOf(entry.name);
      const volume = id === undefined ? undefined : volumeIn(id, entry, settings);
      return volume?.finished ? [{ volume, entry }] : [];
    });

  /** Removes the rest of a failed creation, but nothing of another request. */
  async function undo({ name, source }: VolumeSpec, call: Call): Promise<boolean> {
    const id = idOf(name);
    const others = new Error("the volume belongs to another request");
    const refuseOthers = async (volume: ZfsVolume) => {
      if (volume.finished || volume.name !== name) throw others;
    };
    try {
      if (await find(id, call)) await removeVolume(storage, id, refuseOthers, call);
      else {
        await removeStaging(storage, names.staging(id), call);
        if (source) await dropSources(storage, id, call);
      }
    } catch (error) {
      if (error !== others) throw error;
    }
    return true;
  }

  return {
    ...{ idOf, find, close, clonesFrom: clonable, explain: zfsErrorMapping },
    // On demand: a process may have thousands of stores.
    get snapshots() {
      return datasetSnapshots(storage);
    },
    get moments() {
      return storage.streams && datasetMoments(storage, storage.streams);
    },
    get landings() {
      return storage.streams && datasetLandings(storage, storage.streams);
    },
    get groupSnapshots() {
      return zfs.snapshotsTogether ? datasetGroupSnapshots(storage) : undefined;
    },
    /** Repairs a lost share; ZFS shares what it mounts. */
    restore:
      (sharenfs ?? sharesmb) !== undefined && zfs.share !== undefined
        ? async ({ dataset }, { signal }) => zfs.share?.(dataset, signal)
        : undefined,
    async create(spec, call) {
      await zfs.ready?.(call.signal);
      try {
        return await makeVolume(storage, spec, call);
      } catch (error) {
        const doing = `create volume "${spec.name.slice(0, 160)}"`;
        throw await afterFailure(error, () => undo(spec, call), storage, doing, call);
      }
    },
    async note(volume, notes, call) {
      await set(volume, noteValues(notes), call);
      return { ...volume, notes: { ...volume.notes, ...notes } };
    },
    async finish(volume, notes, call) {
      await set(volume, finishedValues(notes), call);
      return { ...volume, notes: { ...volume.notes, ...notes }, finished: true };
    },
    idOfObject: object => (object.includes("/") ? names.volumeOf(object) : object),
    async unmarked(id, { signal }) {
      if (!isVolumeId(id)) return undefined;
      const query = volumeQuery(settings, names, id);
      const properties = [...new Set([...query.properties, ...conditionProperties])];
      const entry = (await zfs.read({ ...query, properties }, signal)).get(names.dataset(id));
      if (!entry) return undefined;
      const found = shownValue(entry, "type");
      const why = found === type ? whyNotMarked(id, entry, settings.marks) : `is a ${found}`;
      if (why !== undefined) throw storage.error("failed-precondition", `${entry.name} ${why}`);
      const volume = volumeOf(id, entry, settings);
      const exported = sharenfs === undefined ? undefined : await zfs.exported?.(signal);
      const [finding] = datasetFindings(volume, entry, settings, true, exported);
      if (finding) throw storage.error("failed-precondition", `${finding.message}; correct that first`);
      return volume;
    },
    async mark(volume, notes, call) {
      const named = { [property.managed]: "true", [property.volumeName]: volume.id };
      await set(volume, { ...markValues(identity), ...named, ...finishedValues(notes) }, call);
    },
    remove: (id, before, call) => removeVolume(storage, id, before, call),
    async resize(volume, bytes, limit, call) {
      const zvol = settings.volumes.type === "volume" ? settings.volumes : undefined;
      const size = zvol ? wholeUnits(bytes, volume.block || 1n, limit) : bytes;
      const thick = zvol?.thick ? { refreservation: "auto" } : {};
      await set(volume, zvol ? { volsize: String(size), ...thick } : sizeValues(settings, size), call);
      return { ...volume, bytes: size };
    },
    async modify(volume, properties, call) {
      const values = mutableValues(properties, settings);
      if (Object.keys(values).length > 0) await set(volume, values, call);
    },
    /** The space available to the parent, or to the nearest dataset above it that exists. */
    async available(_parameters, { signal }) {
      const parts = names.parent.split("/");
      const above = parts.map((_, at) => parts.slice(0, at + 1).join("/"));
      const entries = await zfs.read({ names: above, properties: ["available"] }, signal);
      const nearest = above.filter(name => entries.has(name)).at(-1) ?? "";
      return bytesOf(shownValue(entries.get(nearest), "available"));
    },
    async list(page, { signal }) {
      const entries = await zfs.below(names.parent, [type], volumePropertyNames(settings), 1, signal);
      const volumes = new Map(finishedIn(entries).map(({ volume }) => [volume.id, volume] as const));
      return pageOf([...volumes.keys()], isVolumeId, page, async id => volumes.get(id));
    },
    /** Reads the pools first, then all datasets at once; a suspended pool would not answer about its datasets. */
    async look({ signal }) {
      const states = await zfs.pools(names.pools, signal);
      const pools = poolFindings(states);
      if (isSuspended(states)) return { storage: pools, volumes: new Map(), assets: [] };
      const properties = [...new Set([...volumePropertyNames(settings), ...conditionProperties])];
      const types = [...new Set(["filesystem", type] as const)];
      const entries = await zfs.below(names.parent, types, properties, 1, signal).catch(unlessSuspended);
      if (!entries) {
        // OpenZFS 2.1 still calls such a pool ONLINE.
        const suspended = new Map([...states, [names.pool, "SUSPENDED"]]);
        return { storage: poolFindings(suspended), volumes: new Map(), assets: [] };
      }
      const exported = sharenfs === undefined ? undefined : await zfs.exported?.(signal);
      const above = parentFindings(entries.find(({ name }) => name === names.parent));
      const found = finishedIn(entries);
      const findings = found.map(
        ({ volume, entry }) =>
          [volume.id, datasetFindings(volume, entry, settings, above.length > 0, exported)] as const,
      );
      return {
        storage: [...pools, ...above],
        volumes: findingsOf(findings),
        assets: found.map(({ volume }) => volume),
      };
    },
    /** Proves that zfs can be called and the pools exist. */
    check: async ({ signal }) => void (await zfs.read({ names: names.pools, properties: ["type"] }, signal)),
  };
}
