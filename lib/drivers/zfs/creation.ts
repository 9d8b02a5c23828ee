import { wantedBytes } from "../../core/bytes.ts";
import type { Call } from "../../core/call.ts";
import { ignoreNotFound } from "../../core/errors.ts";
import { pause } from "../../core/time.ts";
import type { Source, VolumeSpec } from "../driver.ts";
import { sizeFrom, wholeUnits } from "../sizes.ts";
import { refusePlainClone } from "./copies/refusal.ts";
import { makeFullCopy } from "./full-copy.ts";
import { datasetOf, snapshotNameOf } from "./names.ts";
import { bytesOf, markValues, shownValue, whyNotVolume } from "./properties.ts";
import { aloneWithShare, refuseSameShare } from "./shares/properties.ts";
import { type CloneSource, copySourceOf } from "./sources.ts";
import type { ZfsStorage } from "./storage.ts";
import {
  blockBytes,
  blockSizeOf,
  finishedValues,
  isSwitchedOn,
  laterValues,
  listProperties,
  type NewValues,
  volumeValues,
  wantsEncryption,
} from "./values.ts";
import { volumeIn, volumeQuery, type ZfsVolume } from "./volume.ts";
import { type CreationResult, type Entry, type NewDataset, untrue, ZfsError, type ZfsFailure } from "./zfs.ts";

/** The pauses before a dataset without a mark is read again, in milliseconds. */
const markPausesMs = [200, 500, 1000];

/** The largest block of ZFS in bytes (OpenZFS 2.4, include/sys/spa.h, SPA_MAXBLOCKSIZE). */
const largestBlock = 16n << 20n;

/** What is decided of a new volume before the pool is touched. */
export interface CreationPlan {
  readonly bytes: bigint;
  readonly values: NewValues;
}

/** The plan of a volume of at least `least` bytes in blocks of `unit` bytes. Throws "out-of-range" when whole blocks exceed the limit. */
export function creationPlan(
  { settings, identity }: Pick<ZfsStorage, "settings" | "identity">,
  spec: VolumeSpec,
  least: bigint,
  unit: bigint,
): CreationPlan {
  const { volumes } = settings;
  const asked = least > 0n ? sizeFrom(spec.range, least) : wantedBytes(spec.range);
  const smallest = (volumes.type === "filesystem" ? volumes.least : undefined) ?? 0n;
  const bytes = wholeUnits(asked > smallest ? asked : smallest, unit, spec.range.limit);
  return { bytes, values: volumeValues(settings, identity, spec, bytes) };
}

/** The values of a volume with the content of a source, whose access control lists are kept as the source keeps them. */
const valuesFrom = ({ values }: CreationPlan, { lists }: CloneSource): NewValues => ({
  ...laterValues(values),
  ...lists,
});

/** Runs a fallback after these failures of ZFS. */
const on =
  <T>(failures: readonly ZfsFailure[], otherwise: (error: ZfsError) => Promise<T>) =>
  (error: unknown): Promise<T> => {
    if (error instanceof ZfsError && failures.includes(error.failure)) return otherwise(error);
    throw error;
  };

/** Another controller has removed the volume. */
async function removed({ message }: ZfsError): Promise<never> {
  throw new ZfsError("changed", message);
}

/** A volume. `isShared`: this call made and shared it in one step. */
interface MadeVolume {
  readonly volume: ZfsVolume;
  readonly isShared: boolean;
}

/** Makes a volume, empty or with the content of its source. Returns one that exists; completed if an interrupted call left it. */
export async function makeVolume(storage: ZfsStorage, spec: VolumeSpec, call: Call): Promise<MadeVolume> {
  const { names, settings, zfs, identity } = storage;
  const { signal } = call;
  const id = names.idOf(spec.name);
  const dataset = names.dataset(id);
  const staging = names.staging(id);
  const query = volumeQuery(settings, names, id);
  const filesystem = settings.volumes.type === "filesystem" ? settings.volumes : undefined;

  /**
   * The plan of a volume of at least `least` bytes, in whole blocks of its class and of its source, both powers of two. Throws "out-of-range"
   * when they exceed the limit.
   */
  function planOf(least: bigint, range = spec.range, sourceBlock = 0n): CreationPlan {
    const block = blockSizeOf(settings, spec.parameters);
    const unit = block === undefined ? 1n : blockBytes(block);
    return creationPlan(storage, { ...spec, range }, least, sourceBlock > unit ? sourceBlock : unit);
  }

  /** The plan of a volume made of a source, whose blocks it keeps. Most sizes are whole blocks of any size. */
  async function planFrom({ name, bytes }: CloneSource): Promise<CreationPlan> {
    const plan = planOf(bytes);
    if (filesystem || plan.bytes % largestBlock === 0n) return plan;
    const of = datasetOf(name);
    const entry = (await zfs.read({ names: [of], properties: ["volblocksize"] }, signal)).get(of);
    return planOf(bytes, spec.range, bytesOf(shownValue(entry, "volblocksize")));
  }

  const { address } = settings;
  const finished = address && ((mountpoint: string) => finishedValues(address(mountpoint), settings));

  const newDataset = ({ bytes }: CreationPlan, values: NewValues): NewDataset => ({
    ...{ name: dataset, values, permissions: filesystem?.permissions },
    volsize: filesystem ? undefined : bytes,
  });

  /** Throws "pool-absent", or "parent-absent" while another process creates it: `zfs create -p` does not wait for that. */
  async function withoutParent(cause: ZfsError): Promise<never> {
    const head = `the parent dataset ${dataset.slice(0, dataset.lastIndexOf("/"))} cannot be created`;
    await zfs.read({ names: [names.pool], properties: ["type"] }, signal).catch(
      on(["pool-absent"], async () => {
        throw new ZfsError("pool-absent", `${head}: its pool does not exist or is not imported`, { cause });
      }),
    );
    throw new ZfsError("parent-absent", head, { cause });
  }

  /** Makes an empty volume. One round trip, unless the dataset above it has to be made, too. */
  async function makeEmpty(): Promise<MadeVolume> {
    const plan = planOf(0n);
    const { refreservation, ...others } = plan.values;
    // A new zvol is thick by default; "auto" is for existing ones.
    const values = refreservation === undefined || refreservation === "auto" ? others : { ...others, refreservation };
    const wanted = { ...newDataset(plan, values), finished };
    await refuseSameShare(storage, id, call);
    const made = await zfs
      .create(wanted, false, query, signal)
      .catch(on(["absent"], () => zfs.create(wanted, true, query, signal)))
      .catch(on(["absent", "pool-absent"], withoutParent));
    const volume = await ensureComplete(plan, made);
    if (!made.finished) return { volume, isShared: false };
    const notes = address?.(volume.mountpoint ?? "") ?? {};
    return { volume: { ...volume, notes, finished: true }, isShared: true };
  }

  /** Makes a volume with the content of its source. */
  async function makeFrom(from: Source): Promise<ZfsVolume> {
    // Both at once; an existing volume does not need its source any more.
    const [existing, found] = await Promise.allSettled([
      zfs.read({ names: [dataset], properties: ["type"] }, signal),
      copySourceOf(storage, from, call),
    ]);
    if (existing.status === "rejected") throw existing.reason;
    if (existing.value.size > 0) {
      const entries = await zfs.read(query, signal);
      const { bytes = 0n, block = 0n } = volumeIn(id, entries.get(dataset), settings) ?? {};
      // The size of an existing volume is enough where none is requested.
      const anySize = spec.range.required === undefined && spec.range.limit === undefined && bytes > 0n;
      const plan = planOf(0n, anySize ? { required: bytes, limit: undefined } : spec.range, block);
      return ensureComplete(plan, { made: false, entries });
    }
    if (found.status === "rejected") throw found.reason;
    const source = found.value;
    const plan = await planFrom(source);
    await refuseSameShare(storage, id, call);
    const key = from.kind === "volume" ? "detachedVolumesFromVolumes" : "detachedVolumesFromSnapshots";
    if (isSwitchedOn(spec.parameters, identity, key)) return copied(plan, source);
    const snapshot = snapshotOf(source);
    if (wantsEncryption(spec.parameters)) await refusePlainClone(storage, source.name, call);
    const origin = { snapshot, temporary: snapshot !== source.name };
    return ensureComplete(plan, await zfs.clone(newDataset(plan, valuesFrom(plan, source)), origin, query, signal));
  }

  /** The snapshot that the volume is made from: the source itself, or one that is taken of it for this volume. */
  const snapshotOf = ({ name }: CloneSource): string => (name.includes("@") ? name : names.sourceFor(name, id));

  /** Makes a full copy outside the volumes; it gets its name when it is complete and has all its properties. */
  async function copied(plan: CreationPlan, source: CloneSource): Promise<ZfsVolume> {
    const changes = filesystem ? { canmount: "on" } : { volsize: String(plan.bytes) };
    const copy = {
      ...{ source: source.name, from: snapshotOf(source), staging, to: dataset },
      encrypted: wantsEncryption(spec.parameters),
      begun: { ...(filesystem && { canmount: "noauto" }), ...markValues(identity) },
      values: { ...changes, ...valuesFrom(plan, source) },
      grows: filesystem ? undefined : { property: "volsize", bytes: plan.bytes },
    };
    await makeFullCopy(storage, copy, call);
    return ensureComplete(plan, { made: false, entries: await zfs.read(query, signal) });
  }

  /**
   * Reads the dataset until it has a mark, for a while. ZFS creates a dataset and sets its properties in two steps (OpenZFS 2.1 to 2.3,
   * module/zfs/zfs_ioctl.c, zfs_ioc_create): one that another csimux is creating has no mark yet.
   */
  async function afterMark(): Promise<Entry | undefined> {
    let entry: Entry | undefined;
    for (const ms of markPausesMs) {
      await pause(ms, signal);
      entry = (await zfs.read(query, signal)).get(dataset);
      if (volumeIn(id, entry, settings)) break;
    }
    return entry;
  }

  /** Why a dataset cannot become the volume: one without a mark is never used, however empty it looks. */
  function occupied(entry: Entry): string {
    const kind = shownValue(entry, "type") === "volume" ? "zvol" : "file system";
    return (
      `the ${kind} ${dataset} exists and ${whyNotVolume(id, entry, settings.marks) ?? "is of another type"}, so csimux does not` +
      ` use it; check its content, and remove it (zfs destroy ${dataset}) or rename it (zfs rename) if it is not needed`
    );
  }

  /** The volume that exists now under the planned name; completed if an interrupted call has left it incomplete. */
  async function ensureComplete(plan: CreationPlan, { made, entries }: CreationResult): Promise<ZfsVolume> {
    const first = entries.get(dataset);
    const entry = volumeIn(id, first, settings) ? first : await afterMark();
    if (!entry) throw untrue(`made ${dataset}`);
    const volume = volumeIn(id, entry, settings);
    if (!volume) throw storage.error("already-exists", occupied(entry));
    const equal = volume.name === undefined || volume.name === spec.name;
    const sameSource = volume.source?.kind === spec.source?.kind && volume.source?.id === spec.source?.id;
    if (made || volume.finished || !equal || !sameSource || volume.copyOf) return volume;
    if (!spec.source) await zfs.proveUsable?.(entry, newDataset(plan, plan.values), signal);
    const bytes = volume.bytes > plan.bytes ? volume.bytes : plan.bytes;
    const size = filesystem ? {} : { volsize: String(bytes) };
    // A volume made from a source has got these with its content.
    const all = Object.entries(laterValues(plan.values));
    const values = spec.source ? all.filter(([name]) => !listProperties.includes(name)) : all;
    const of = { guid: volume.guid, unfinished: true };
    await zfs.set(dataset, { ...Object.fromEntries(values), ...size }, signal, of).catch(on(["absent"], removed));
    const isCopy = volume.origin === undefined || volume.origin.startsWith(`${staging}@`);
    if (spec.source && isCopy) await afterCopy(volume, spec.source);
    if (filesystem?.permissions) await zfs.permit(dataset, filesystem.permissions, signal);
    return volumeIn(id, (await zfs.read(query, signal)).get(dataset), settings) ?? volume;
  }

  /** Mounts a copy that has received its name, and removes the snapshots that it was copied with. */
  async function afterCopy({ mountpoint }: ZfsVolume, from: Source): Promise<void> {
    await zfs.finishRename?.(staging, dataset, signal);
    const source = await copySourceOf(storage, from, call).catch(ignoreNotFound);
    if (source) {
      const snapshot = snapshotOf(source);
      await zfs.destroy(`${dataset}@${snapshotNameOf(snapshot)}`, {}, signal);
      if (snapshot !== source.name) await zfs.destroy(snapshot, { deferred: true }, signal);
    }
    // zfs refuses to mount what its node mounts (mountpoint=legacy).
    if (filesystem && mountpoint !== undefined) await zfs.mount(dataset, signal);
  }

  return aloneWithShare(storage, id, async () =>
    spec.source ? { volume: await makeFrom(spec.source), isShared: false } : makeEmpty(),
  );
}
