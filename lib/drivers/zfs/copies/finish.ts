import type { Call } from "../../../core/call.ts";
import type { CopySpec, SourceSnapshot, StillHeld } from "../../copying.ts";
import type { CreationPlan } from "../creation.ts";
import { isReceived, receivedName } from "../names.ts";
import { bytesOf, otherOwner, ownValue, property, shownValue, whyNotVolume } from "../properties.ts";
import type { ZfsStorage } from "../storage.ts";
import { laterValues } from "../values.ts";
import { volumeIn, volumePropertyNames, type ZfsVolume } from "../volume.ts";
import { type Entry, untrue, type Values } from "../zfs.ts";

/** The volume that a target becomes. */
interface FinishedCopy {
  readonly plan: CreationPlan;
  readonly spec: CopySpec;
  readonly snapshot: SourceSnapshot;
  readonly stillHeld: StillHeld;
}

/** The same with the names of the datasets. */
interface Finishing extends FinishedCopy {
  readonly storage: ZfsStorage;
  readonly id: string;
  readonly target: string;
  readonly dataset: string;
  readonly call: Call;
}

/**
 * Makes a target the volume: proof, snapshots, properties, name, mount. Each step is recorded by what it changes, so that a repeated call
 * continues where an interrupted one ended. Returns a volume of this name that is not of this copy, or is finished, as it is.
 */
export async function finishCopy(storage: ZfsStorage, id: string, copy: FinishedCopy, call: Call): Promise<ZfsVolume> {
  const { zfs, names, settings } = storage;
  const [target, dataset] = [names.copyTarget(id), names.dataset(id)];
  const of: Finishing = { ...copy, storage, id, target, dataset, call };
  const received = receivedName(copy.snapshot.proof);
  const properties = ["receive_resume_token", property.proof, property.copyTarget, `written@${received}`];
  const query = {
    names: [names.pool, target, `${target}@${received}`, dataset],
    properties: [...volumePropertyNames(settings), ...properties],
  };
  const entries = await zfs.read(query, call.signal);
  const existing = entries.get(dataset);
  if (existing) {
    const other = otherVolume(of, existing);
    if (other) return other;
  } else {
    const entry = entries.get(target);
    if (!entry) throw untrue(`received ${target}`);
    await prove(of, entry, entries.get(`${target}@${received}`));
    await removeReceived(of);
    await close(of, entry);
    await rename(of);
  }
  await zfs.set(dataset, openValues(of), call.signal);
  const volume = volumeIn(id, (await zfs.read(query, call.signal)).get(dataset), settings);
  if (!volume) throw untrue(`renamed ${target} to ${dataset}`);
  await mountAndShare(of, volume);
  return volume;
}

/** The existing volume of this name, unless it is this copy and not finished. Throws for a dataset that is neither. */
function otherVolume({ storage, id, dataset, spec, snapshot }: Finishing, existing: Entry): ZfsVolume | undefined {
  const { settings } = storage;
  const volume = volumeIn(id, existing, settings);
  if (!volume) {
    const why = whyNotVolume(id, existing, settings.marks) ?? "is of another type";
    throw storage.notOwn(`the dataset ${dataset} exists and ${why}`);
  }
  if (volume.finished || volume.copyOf?.handle !== spec.origin.handle) return volume;
  if (!isProved(existing, snapshot)) throw storage.notOwn(`the unfinished volume ${dataset} is not this copy`);
  return undefined;
}

const isProved = (entry: Entry, { proof }: SourceSnapshot): boolean => ownValue(entry, property.proof) === proof;

/** Throws "failed-precondition" unless the target holds exactly the snapshot. */
async function prove(of: Finishing, entry: Entry, received: Entry | undefined): Promise<void> {
  const { storage, id, target, snapshot, call } = of;
  const { settings } = storage;
  const unproved = (why: string) => storage.error("failed-precondition", `${target} is not a complete copy: ${why}`);
  if (ownValue(entry, property.copyTarget) !== id || otherOwner(entry, settings.marks) !== undefined)
    throw storage.notOwn(`the dataset ${target} is not the target of a copy of this connection`);
  if (shownValue(entry, "type") !== settings.volumes.type) throw unproved(`it is a ${shownValue(entry, "type")}`);
  if (shownValue(entry, "receive_resume_token") !== undefined) throw unproved("a stream into it was interrupted");
  if (isProved(entry, snapshot)) return;
  if (snapshot.proof === "") throw unproved("the snapshot has no guid");
  if (!received || shownValue(received, "guid") !== snapshot.proof)
    throw unproved("it lacks the snapshot that was sent");
  const changed = shownValue(entry, `written@${receivedName(snapshot.proof)}`);
  if (changed !== "0") throw unproved(`${changed ?? "unknown"} bytes were written since it was received`);
  await storage.zfs.set(target, { [property.proof]: snapshot.proof }, call.signal);
}

/** Removes the snapshots that came with the streams; what others took stays. */
async function removeReceived({ storage: { zfs }, target, call: { signal } }: Finishing): Promise<void> {
  for (const { name } of await zfs.below(target, ["snapshot"], ["guid"], 1, signal))
    if (isReceived(name)) await zfs.destroy(name, {}, signal);
}

/** Sets the properties of the volume, except those that would mount or share it under its present name. */
async function close({ storage: { zfs, settings }, target, plan, call }: Finishing, entry: Entry): Promise<void> {
  const {
    mountpoint: _mountpoint,
    canmount: _canmount,
    sharenfs: _nfs,
    sharesmb: _smb,
    volmode: _mode,
    ...values
  } = laterValues(plan.values);
  const guid = shownValue(entry, "guid");
  if (settings.volumes.type === "filesystem") return zfs.set(target, values, call.signal, { guid });
  const present = bytesOf(shownValue(entry, "volsize"));
  const bytes = plan.bytes > present ? plan.bytes : present;
  // Another process that has become the holder since then may have received a larger round; ZFS would cut off what is behind the size.
  const grows = { property: "volsize", bytes };
  return zfs.set(target, { ...values, volsize: String(bytes) }, call.signal, { guid, grows });
}

/** Gives the target the name of the volume, if this process is still the holder. */
async function rename({ storage: { zfs, names }, id, target, dataset, stillHeld, call }: Finishing): Promise<void> {
  const name = names.record(id);
  const record = (await zfs.read({ names: [name], properties: ["guid", property.copy] }, call.signal)).get(name);
  await stillHeld();
  // This process may be suspended even now: another one that has become the holder since then has changed the record.
  const still = { property: property.copy, value: ownValue(record, property.copy) ?? "", proved: false };
  await zfs.rename(target, dataset, call.signal, { of: name, guid: shownValue(record, "guid"), still });
}

/** The properties that open the volume, which has its name. */
function openValues({ storage: { settings }, plan }: Finishing): Values {
  const values = laterValues(plan.values);
  const kept = { [property.copyTarget]: undefined };
  if (settings.volumes.type === "volume") return { ...kept, volmode: values["volmode"] };
  const { mountpoint, canmount = "on", sharenfs, sharesmb } = values;
  return { ...kept, mountpoint, sharenfs, sharesmb, canmount };
}

async function mountAndShare({ storage, dataset, call: { signal } }: Finishing, volume: ZfsVolume): Promise<void> {
  const { zfs, settings } = storage;
  const filesystem = settings.volumes.type === "filesystem" ? settings.volumes : undefined;
  // zfs refuses to mount what its node mounts (mountpoint=legacy).
  if (filesystem && volume.mountpoint !== undefined) await zfs.mount(dataset, signal);
  // zfs mount alone does not share (OpenZFS 2.1 to 2.3, cmd/zfs/zfs_main.c, share_mount_one).
  const isShared = ["sharenfs", "sharesmb"].some(key => (settings.sharing[key] ?? "off") !== "off");
  if (isShared) await zfs.share?.(dataset, signal);
  if (filesystem?.permissions) await storage.permit(dataset, filesystem.permissions, signal);
}
