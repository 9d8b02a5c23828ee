import { wantedBytes } from "../../core/bytes.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { pause } from "../../core/time.ts";
import type { Source, VolumeSpec } from "../driver.ts";
import { sizeFrom, wholeUnits } from "../sizes.ts";
import { markValues, shownValue, whyNotVolume } from "./properties.ts";
import { refuseSameShare } from "./shares.ts";
import { type CopySource, copySourceOf, refuseOthers } from "./sources.ts";
import type { ZfsStorage } from "./storage.ts";
import {
  blockBytes,
  blockSizeOf,
  cloneValues,
  isSwitchedOn,
  laterValues,
  type NewValues,
  volumeValues,
} from "./values.ts";
import { volumeIn, volumeQuery, type ZfsVolume } from "./volume.ts";
import { type Creation, type Entry, type NewDataset, untrue, ZfsError, type ZfsFailure } from "./zfs.ts";

/** The pauses before a dataset without a mark is read again, in milliseconds. */
const markPausesMs = [200, 500, 1000];

/** Everything about a new volume that is decided before the pool is touched. */
interface CreationPlan {
  readonly id: string;
  readonly dataset: string;
  readonly bytes: bigint;
  readonly values: NewValues;
}

type CopySpec = VolumeSpec & { readonly source: Source };

/** The plan of a volume of at least `least` bytes. Throws "out-of-range" when whole blocks exceed the limit. */
function planOf(storage: ZfsStorage, spec: VolumeSpec, least: bigint): CreationPlan {
  const { names, settings, identity } = storage;
  const id = names.idOf(spec.name);
  const asked = least > 0n ? sizeFrom(spec.range, least) : wantedBytes(spec.range);
  const smallest = (settings.volumes.type === "filesystem" ? settings.volumes.least : undefined) ?? 0n;
  const block = blockSizeOf(settings, spec.parameters);
  const unit = block === undefined ? 1n : blockBytes(block);
  const bytes = wholeUnits(asked > smallest ? asked : smallest, unit, spec.range.limit);
  return { id, dataset: names.dataset(id), bytes, values: volumeValues(settings, identity, spec, bytes) };
}

function newDataset({ settings: { volumes } }: ZfsStorage, { dataset, bytes }: CreationPlan, values: NewValues) {
  const filesystem = volumes.type === "filesystem";
  const made: NewDataset = {
    name: dataset,
    volsize: filesystem ? undefined : bytes,
    values,
    permissions: filesystem ? volumes.permissions : undefined,
  };
  return made;
}

/** Does something else where ZFS failed for one of these reasons. */
const on =
  <T>(failures: readonly ZfsFailure[], otherwise: (error: ZfsError) => Promise<T>) =>
  (error: unknown): Promise<T> => {
    if (error instanceof ZfsError && failures.includes(error.failure)) return otherwise(error);
    throw error;
  };

/**
 * Why the dataset above volumes cannot be created. Without its pool nothing is known of what an earlier call made. With it, another
 * process is creating the dataset: `zfs create -p` does not wait for that.
 */
async function withoutParent(
  { names, zfs }: ZfsStorage,
  { dataset }: CreationPlan,
  cause: ZfsError,
  { signal }: Call,
): Promise<never> {
  const head = `the parent dataset ${dataset.slice(0, dataset.lastIndexOf("/"))} cannot be created`;
  await zfs.read({ names: [names.pool], properties: ["type"] }, signal).catch(
    on(["pool-absent"], async () => {
      throw new ZfsError("pool-absent", `${head}: its pool does not exist or is not imported`, { cause });
    }),
  );
  throw new ZfsError("parent-absent", head, { cause });
}

/** Makes an empty volume. One round trip, unless the dataset above it has to be made, too. */
export async function makeEmpty(storage: ZfsStorage, spec: VolumeSpec, call: Call): Promise<ZfsVolume> {
  const plan = planOf(storage, spec, 0n);
  const { names, settings, zfs } = storage;
  const { refreservation, ...others } = plan.values;
  // A new zvol is thick by default; "auto" is for existing ones.
  const values = refreservation === undefined || refreservation === "auto" ? others : { ...others, refreservation };
  const dataset = newDataset(storage, plan, values);
  const query = volumeQuery(settings, names, plan.id);
  await refuseSameShare(storage, plan.id, call);
  const made = await zfs
    .create(dataset, false, query, call.signal)
    .catch(on(["absent"], () => zfs.create(dataset, true, query, call.signal)))
    .catch(on(["absent", "pool-absent"], cause => withoutParent(storage, plan, cause, call)));
  return ensureComplete(storage, spec, plan, made, call);
}

/** Makes a volume with the content of its source. */
export async function makeFrom(storage: ZfsStorage, spec: CopySpec, call: Call): Promise<ZfsVolume> {
  const { names, settings, zfs, identity } = storage;
  const id = names.idOf(spec.name);
  const query = volumeQuery(settings, names, id);
  // Both at once; an existing volume does not need its source any more.
  const [existing, found] = await Promise.allSettled([
    zfs.read({ names: [names.dataset(id)], properties: ["type"] }, call.signal),
    copySourceOf(storage, spec.source, call),
  ]);
  if (existing.status === "rejected") throw existing.reason;
  if (existing.value.size > 0) {
    const entries = await zfs.read(query, call.signal);
    const least = volumeIn(id, entries.get(names.dataset(id)), settings)?.bytes ?? 0n;
    const plan = planOf(storage, { ...spec, range: atLeast(spec, least) }, 0n);
    return ensureComplete(storage, spec, plan, { made: false, entries }, call);
  }
  if (found.status === "rejected") throw found.reason;
  const source = found.value;
  const plan = planOf(storage, spec, source.bytes);
  await refuseSameShare(storage, plan.id, call);
  const key = spec.source.kind === "volume" ? "detachedVolumesFromVolumes" : "detachedVolumesFromSnapshots";
  if (isSwitchedOn(spec.parameters, identity, key)) return copied(storage, spec, plan, source, call);
  const dataset = newDataset(storage, plan, cloneValues(plan.values));
  const snapshot = snapshotOf(storage, source, id);
  const made = await zfs.clone(dataset, { snapshot, temporary: snapshot !== source.name }, query, call.signal);
  return ensureComplete(storage, spec, plan, made, call);
}

/** The range of a request for an existing volume: its size is enough where none is requested. */
const atLeast = ({ range }: VolumeSpec, bytes: bigint): VolumeSpec["range"] =>
  range.required === undefined && range.limit === undefined && bytes > 0n
    ? { required: bytes, limit: undefined }
    : range;

/** The snapshot that a volume is made from: the source itself, or one that is taken of it for this volume. */
const snapshotOf = ({ names }: ZfsStorage, { name }: CopySource, id: string): string =>
  name.includes("@") ? name : names.sourceFor(name, id);

/** Takes the snapshot of a volume to copy. One that an earlier attempt left is used only while its copy exists. */
async function takeSource({ names, zfs }: ZfsStorage, from: string, staging: string, { signal }: Call): Promise<void> {
  const query = { names: [names.pool, staging], properties: ["type"] };
  if (!(await zfs.read(query, signal)).has(staging)) await zfs.destroy(from, {}, signal);
  await zfs.snapshot([from], {}, query, signal);
}

/** Makes a full copy beside the volumes; it gets its name when it is complete and has all its properties. */
async function copied(
  storage: ZfsStorage,
  spec: CopySpec,
  plan: CreationPlan,
  source: CopySource,
  call: Call,
): Promise<ZfsVolume> {
  const { names, settings, zfs, identity } = storage;
  const { signal } = call;
  const from = snapshotOf(storage, source, plan.id);
  const staging = names.staging(plan.id);
  await refuseOthers(storage, staging, call);
  if (from !== source.name) await takeSource(storage, from, staging, call);
  const filesystem = settings.volumes.type === "filesystem";
  const unmounted = filesystem ? { canmount: "noauto" } : {};
  await zfs.copy({ from, to: staging, values: { ...unmounted, ...markValues(identity) } }, signal);
  const changes = filesystem ? { canmount: "on" } : { volsize: String(plan.bytes) };
  await zfs.set(staging, { ...changes, ...laterValues(plan.values) }, signal);
  await zfs.rename(staging, plan.dataset, signal);
  const entries = await zfs.read(volumeQuery(settings, names, plan.id), signal);
  return ensureComplete(storage, spec, plan, { made: false, entries }, call);
}

/**
 * Reads the dataset until it has a mark, for a while. ZFS creates a dataset and sets its properties in two steps (OpenZFS 2.1 to 2.3,
 * module/zfs/zfs_ioctl.c, zfs_ioc_create): one that another csimux is creating has no mark yet.
 */
async function afterMark(
  { settings, names, zfs }: ZfsStorage,
  { id, dataset }: CreationPlan,
  { signal }: Call,
): Promise<Entry | undefined> {
  let entry: Entry | undefined;
  for (const ms of markPausesMs) {
    await pause(ms, signal);
    entry = (await zfs.read(volumeQuery(settings, names, id), signal)).get(dataset);
    if (volumeIn(id, entry, settings)) break;
  }
  return entry;
}

/** Why a dataset cannot become the volume: one without a mark is never used, however empty it looks. */
function occupied({ settings }: ZfsStorage, { id, dataset }: CreationPlan, entry: Entry): string {
  const kind = shownValue(entry, "type") === "volume" ? "zvol" : "file system";
  return (
    `the ${kind} ${dataset} exists and ${whyNotVolume(id, entry, settings.marks) ?? "is of another type"}, so csimux does not` +
    ` use it; check its content, and remove it (zfs destroy ${dataset}) or rename it (zfs rename) if it is not needed`
  );
}

/** The volume that exists now under the planned name; completed if an interrupted call has left it incomplete. */
async function ensureComplete(
  storage: ZfsStorage,
  spec: VolumeSpec,
  plan: CreationPlan,
  { made, entries }: Creation,
  call: Call,
): Promise<ZfsVolume> {
  const { settings, names, zfs } = storage;
  const first = entries.get(plan.dataset);
  const entry = volumeIn(plan.id, first, settings) ? first : await afterMark(storage, plan, call);
  if (!entry) throw untrue(`made ${plan.dataset}`);
  const volume = volumeIn(plan.id, entry, settings);
  if (!volume) throw storage.error("already-exists", occupied(storage, plan, entry));
  const equal = volume.name === undefined || volume.name === spec.name;
  const sameSource = volume.source?.kind === spec.source?.kind && volume.source?.id === spec.source?.id;
  if (made || volume.finished || !equal || !sameSource) return volume;
  const bytes = volume.bytes > plan.bytes ? volume.bytes : plan.bytes;
  const size = settings.volumes.type === "volume" ? { volsize: String(bytes) } : {};
  await zfs.set(volume.dataset, { ...laterValues(plan.values), ...size }, call.signal);
  const isCopy = volume.origin === undefined || volume.origin.startsWith(`${names.staging(plan.id)}@`);
  if (spec.source && isCopy) await afterCopy(storage, volume, spec.source, call);
  const { permissions } = newDataset(storage, plan, plan.values);
  if (permissions) await zfs.permit(volume.dataset, permissions, call.signal);
  const completed = await zfs.read(volumeQuery(settings, names, plan.id), call.signal);
  return volumeIn(plan.id, completed.get(plan.dataset), settings) ?? volume;
}

/** Undefined for a source that does not exist any more. Throws every other failure. */
function unlessGone(error: unknown): undefined {
  if (!(error instanceof CsiError && error.code === "not-found")) throw error;
}

/** Mounts a copy that has received its name, and removes the snapshots that it was copied with. */
async function afterCopy(storage: ZfsStorage, volume: ZfsVolume, from: Source, call: Call): Promise<void> {
  const { names, zfs, settings } = storage;
  await zfs.finishRename?.(names.staging(volume.id), volume.dataset, call.signal);
  const source = await copySourceOf(storage, from, call).catch(unlessGone);
  if (source) {
    const snapshot = snapshotOf(storage, source, volume.id);
    await zfs.destroy(`${volume.dataset}@${snapshot.slice(snapshot.indexOf("@") + 1)}`, {}, call.signal);
    if (snapshot !== source.name) await zfs.destroy(snapshot, { deferred: true }, call.signal);
  }
  // zfs refuses to mount what its node mounts (mountpoint=legacy).
  if (settings.volumes.type !== "filesystem" || volume.mountpoint === undefined) return;
  await zfs.mount(volume.dataset, call.signal);
}
