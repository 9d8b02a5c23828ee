import { wantedBytes } from "../../core/bytes.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { pause } from "../../core/time.ts";
import type { VolumeSpec } from "../driver.ts";
import { sizeFrom, wholeUnits } from "../sizes.ts";
import { markValues, whyNotVolume } from "./properties.ts";
import { refuseSameShare } from "./shares.ts";
import { type CopySource, originOf, refuseOthers } from "./sources.ts";
import type { ConnectionContext } from "./storage.ts";
import { blockBytes, blockSizeOf, cloneValues, laterValues, type NewValues, switched, volumeValues } from "./values.ts";
import { shownValue, volumeIn, volumeQuery, type ZfsVolume } from "./volume.ts";
import { type Creation, type Entry, type NewDataset, untrue, ZfsError, type ZfsFailure } from "./zfs.ts";

/** When a dataset without a mark is looked at again, in milliseconds. */
const markPausesMs = [200, 500, 1000];

/** A volume to be made: everything that is decided before the pool is touched. */
interface CreationPlan {
  readonly id: string;
  readonly dataset: string;
  readonly bytes: bigint;
  readonly values: NewValues;
}

/** The plan of a volume of at least `least` bytes. Throws "out-of-range" when whole blocks exceed the limit. */
function planOf(space: ConnectionContext, spec: VolumeSpec, least: bigint): CreationPlan {
  const { names, settings, identity } = space;
  const id = names.idOf(spec.name);
  const asked = least > 0n ? sizeFrom(spec.range, least) : wantedBytes(spec.range);
  const wanted = max(asked, (settings.volumes.type === "filesystem" ? settings.volumes.least : undefined) ?? 0n);
  const block = blockSizeOf(settings, spec.parameters);
  const bytes = wholeUnits(wanted, block === undefined ? 1n : blockBytes(block), spec.range.limit);
  return { id, dataset: names.dataset(id), bytes, values: volumeValues(settings, identity, spec, bytes) };
}

const max = (a: bigint, b: bigint): bigint => (a > b ? a : b);

const permissionsOf = ({ settings: { volumes } }: ConnectionContext) =>
  volumes.type === "filesystem" ? volumes.permissions : undefined;

/** Does something else where ZFS failed for one of these reasons. */
const whenever =
  <T>(failures: readonly ZfsFailure[], otherwise: (error: ZfsError) => Promise<T>) =>
  (error: unknown): Promise<T> => {
    if (error instanceof ZfsError && failures.includes(error.failure)) return otherwise(error);
    throw error;
  };

/**
 * Why the dataset above volumes cannot be created. Without its pool that tells nothing about what an earlier call made: a pool that is
 * not imported looks the same. With it, somebody else creates that dataset at this moment: zfs create -p does not wait for that.
 */
async function withoutParent(
  { names, zfs }: ConnectionContext,
  dataset: string,
  cause: ZfsError,
  call: Call,
): Promise<ZfsError> {
  const parent = dataset.slice(0, dataset.lastIndexOf("/"));
  const head = `the parent dataset ${parent} cannot be created`;
  const isPoolAbsent = (error: unknown): true => {
    if (error instanceof ZfsError && error.failure === "pool-absent") return true;
    throw error;
  };
  const absent = await zfs.read({ names: [names.pool], properties: ["type"] }, call.signal).catch(isPoolAbsent);
  if (absent === true)
    return new ZfsError("pool-absent", `${head}: its pool does not exist or is not imported`, { cause });
  return new ZfsError("parent-absent", head, { cause });
}

/** A new volume without content. One round trip, unless the dataset above it has to be made too. */
export async function makeEmpty(space: ConnectionContext, spec: VolumeSpec, call: Call): Promise<ZfsVolume> {
  const plan = planOf(space, spec, 0n);
  const { names, settings, zfs } = space;
  const { refreservation, ...others } = plan.values;
  const volume = settings.volumes.type === "volume";
  // A new device is thick unless it is told otherwise; "auto" is for those that exist.
  const values = refreservation === undefined || refreservation === "auto" ? others : { ...others, refreservation };
  const dataset: NewDataset = {
    name: plan.dataset,
    volsize: volume ? plan.bytes : undefined,
    values,
    permissions: permissionsOf(space),
  };
  const look = volumeQuery(settings, names, plan.id);
  await refuseSameShare(space, plan.id, call);
  const made = await zfs
    .create(dataset, false, look, call.signal)
    .catch(whenever(["absent"], () => zfs.create(dataset, true, look, call.signal)))
    .catch(
      whenever(["absent", "pool-absent"], async cause => {
        throw await withoutParent(space, plan.dataset, cause, call);
      }),
    );
  return ensureComplete(space, spec, plan, made, call);
}

/** A new volume with the content of its source. */
export async function makeFrom(
  space: ConnectionContext,
  spec: VolumeSpec & { readonly source: NonNullable<VolumeSpec["source"]> },
  call: Call,
): Promise<ZfsVolume> {
  const { names, settings, zfs, identity } = space;
  const id = names.idOf(spec.name);
  const look = volumeQuery(settings, names, id);
  // Both at once; a volume that is there does not need its source any more.
  const [there, source] = await Promise.allSettled([
    zfs.read({ names: [names.dataset(id)], properties: ["type"] }, call.signal),
    originOf(space, spec.source, call),
  ]);
  if (there.status === "rejected") throw there.reason;
  if (there.value.size > 0) {
    const before = await zfs.read(look, call.signal);
    const least = volumeIn(id, before.get(names.dataset(id)), settings)?.bytes ?? 0n;
    return ensureComplete(
      space,
      spec,
      planOf(space, { ...spec, range: atLeast(spec, least) }, 0n),
      { made: false, entries: before },
      call,
    );
  }
  if (source.status === "rejected") throw source.reason;
  const origin = source.value;
  const plan = planOf(space, spec, origin.bytes);
  await refuseSameShare(space, plan.id, call);
  const kind = spec.source.kind === "volume" ? "detachedVolumesFromVolumes" : "detachedVolumesFromSnapshots";
  if (switched(spec.parameters, identity, kind)) return copied(space, spec, plan, origin, call);
  const dataset: NewDataset = {
    name: plan.dataset,
    volsize: settings.volumes.type === "volume" ? plan.bytes : undefined,
    values: cloneValues(plan.values),
    permissions: permissionsOf(space),
  };
  const snapshot = snapshotFor(space, id, origin);
  const made = await zfs.clone(dataset, { snapshot, temporary: snapshot !== origin.name }, look, call.signal);
  return ensureComplete(space, spec, plan, made, call);
}

/** The range of a request for a volume that is there: what it has is enough where nothing is asked for. */
const atLeast = ({ range }: VolumeSpec, bytes: bigint): VolumeSpec["range"] =>
  range.required === undefined && range.limit === undefined && bytes > 0n
    ? { required: bytes, limit: undefined }
    : range;

/** Takes the snapshot of a volume that is to be copied. One that an earlier attempt left counts only while its copy is under way. */
async function takeSource(
  { names, zfs }: ConnectionContext,
  from: string,
  staging: string,
  { signal }: Call,
): Promise<void> {
  const look = { names: [names.pool, staging], properties: ["type"] };
  if (!(await zfs.read(look, signal)).has(staging)) await zfs.destroy(from, {}, signal);
  await zfs.snapshot([from], {}, look, signal);
}

/** A full copy: made beside the volumes, and given its name when it is whole and has all its properties. */
async function copied(
  space: ConnectionContext,
  spec: VolumeSpec,
  plan: CreationPlan,
  origin: CopySource,
  call: Call,
): Promise<ZfsVolume> {
  const { names, settings, zfs } = space;
  const { signal } = call;
  const attached = origin.name.includes("@");
  const from = attached ? origin.name : names.sourceFor(origin.name, plan.id);
  const look = volumeQuery(settings, names, plan.id);
  const staging = names.staging(plan.id);
  await refuseOthers(space, staging, call);
  if (!attached) await takeSource(space, from, staging, call);
  const filesystem = settings.volumes.type === "filesystem";
  await zfs.copy(
    { from, to: staging, values: { ...(filesystem && { canmount: "noauto" }), ...markValues(space.identity) } },
    signal,
  );
  const size = filesystem ? {} : { volsize: String(plan.bytes) };
  const mounted = filesystem ? { canmount: "on" } : {};
  await zfs.set(staging, { ...size, ...mounted, ...laterValues(plan.values) }, signal);
  await zfs.rename(staging, plan.dataset, signal);
  const entries = await zfs.read(look, signal);
  return ensureComplete(space, spec, plan, { made: false, entries }, call);
}

/**
 * What stands under the planned name once it has a mark, or after a while. ZFS makes a dataset first and sets its properties in a moment
 * of its own (OpenZFS 2.1 to 2.3, module/zfs/zfs_ioctl.c, zfs_ioc_create): one that another csimux makes right now has no mark yet.
 */
async function afterMark(
  space: ConnectionContext,
  { id, dataset }: CreationPlan,
  call: Call,
): Promise<Entry | undefined> {
  const { settings, names, zfs } = space;
  let entry: Entry | undefined;
  for (const ms of markPausesMs) {
    await pause(ms, call.signal);
    entry = (await zfs.read(volumeQuery(settings, names, id), call.signal)).get(dataset);
    if (volumeIn(id, entry, settings)) break;
  }
  return entry;
}

/** Why a dataset cannot become the volume that was asked for: nothing that bears no mark is taken, however empty it looks. */
function occupied({ settings }: ConnectionContext, { id, dataset }: CreationPlan, entry: Entry): string {
  const kind = shownValue(entry, "type") === "volume" ? "zvol" : "file system";
  return (
    `the ${kind} ${dataset} exists and ${whyNotVolume(id, entry, settings.marks) ?? "is of another type"}, so it is not used; look at` +
    ` what is in it, and remove it (zfs destroy ${dataset}) or rename it (zfs rename) where it is not needed`
  );
}

/** The snapshot that a volume is made from: of a volume or a copy, one that is made for it. */
const snapshotFor = ({ names }: ConnectionContext, id: string, { name }: CopySource): string =>
  name.includes("@") ? name : names.sourceFor(name, id);

/** The volume that stands now under the planned name, completed where an interrupted call has left it. */
async function ensureComplete(
  space: ConnectionContext,
  spec: VolumeSpec,
  plan: CreationPlan,
  made: Creation,
  call: Call,
): Promise<ZfsVolume> {
  const { settings, names, zfs } = space;
  const first = made.entries.get(plan.dataset);
  const entry = volumeIn(plan.id, first, settings) ? first : await afterMark(space, plan, call);
  if (!entry) throw untrue(`made ${plan.dataset}`);
  const asset = volumeIn(plan.id, entry, settings);
  if (!asset) throw space.error("already-exists", occupied(space, plan, entry));
  const equal = asset.name === undefined || asset.name === spec.name;
  const sameSource = asset.source?.kind === spec.source?.kind && asset.source?.id === spec.source?.id;
  if (made.made || asset.finished || !equal || !sameSource) return asset;
  const bytes = asset.bytes > plan.bytes ? asset.bytes : plan.bytes;
  const size = settings.volumes.type === "volume" ? { volsize: String(bytes) } : {};
  await zfs.set(asset.dataset, { ...laterValues(plan.values), ...size }, call.signal);
  const ofCopy = asset.origin === undefined || asset.origin.startsWith(`${names.staging(plan.id)}@`);
  if (spec.source && ofCopy) await afterCopy(space, asset, spec.source, call);
  const permissions = permissionsOf(space);
  if (permissions) await zfs.permit(asset.dataset, permissions, call.signal);
  const entries = await zfs.read(volumeQuery(settings, names, plan.id), call.signal);
  return volumeIn(plan.id, entries.get(plan.dataset), settings) ?? asset;
}

/** Nothing for a source that does not exist any more. Throws every other failure, after which nobody knows. */
function unlessGone(error: unknown): undefined {
  if (!(error instanceof CsiError && error.code === "not-found")) throw error;
}

/** What a copy needs after it has its name: to be mounted, and rid of the snapshots that it was copied with. */
async function afterCopy(
  space: ConnectionContext,
  asset: ZfsVolume,
  source: NonNullable<VolumeSpec["source"]>,
  call: Call,
): Promise<void> {
  const { names, zfs, settings } = space;
  await zfs.finishRename?.(names.staging(asset.id), asset.dataset, call.signal);
  const origin = await originOf(space, source, call).catch(unlessGone);
  const attached = origin?.name.includes("@") ?? false;
  const from = origin && (attached ? origin.name : names.sourceFor(origin.name, asset.id));
  if (from !== undefined) {
    await zfs.destroy(`${asset.dataset}@${from.slice(from.indexOf("@") + 1)}`, {}, call.signal);
    if (!attached) await zfs.destroy(from, { deferred: true }, call.signal);
  }
  // What its node mounts (mountpoint=legacy) zfs refuses to.
  if (settings.volumes.type !== "filesystem" || asset.mountpoint === undefined) return;
  await zfs.mount(asset.dataset, call.signal);
}
