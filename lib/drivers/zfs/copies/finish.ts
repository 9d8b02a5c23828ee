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

/**
 * Makes a target the volume: proof, snapshots, properties, name, mount. Each step is recorded by what it changes, so that a repeated call
 * continues where an interrupted one ended. Returns a volume of this name that is not of this copy, or is finished, as it is.
 */
export async function finishCopy(
  storage: ZfsStorage,
  id: string,
  { plan, spec, snapshot, stillHeld }: FinishedCopy,
  call: Call,
): Promise<ZfsVolume> {
  const { zfs, names, settings } = storage;
  const { signal } = call;
  const [target, dataset] = [names.copyTarget(id), names.dataset(id)];
  const filesystem = settings.volumes.type === "filesystem" ? settings.volumes : undefined;
  const written = `written@${receivedName(snapshot.proof)}`;
  const query = {
    names: [names.pool, target, `${target}@${receivedName(snapshot.proof)}`, dataset],
    properties: [
      ...volumePropertyNames(settings),
      "receive_resume_token",
      property.proof,
      property.copyTarget,
      written,
    ],
  };

  const isProved = (entry: Entry | undefined): boolean => ownValue(entry, property.proof) === snapshot.proof;

  const unproved = (why: string) => storage.error("failed-precondition", `${target} is not a complete copy: ${why}`);

  /** Throws "failed-precondition" unless the target holds exactly the snapshot. */
  async function prove(entry: Entry, received: Entry | undefined): Promise<void> {
    if (ownValue(entry, property.copyTarget) !== id || otherOwner(entry, settings.marks) !== undefined)
      throw storage.notOwn(`the dataset ${target} is not the target of a copy of this connection`);
    if (shownValue(entry, "type") !== settings.volumes.type) throw unproved(`it is a ${shownValue(entry, "type")}`);
    if (shownValue(entry, "receive_resume_token") !== undefined) throw unproved("a stream into it was interrupted");
    if (isProved(entry)) return;
    if (snapshot.proof === "") throw unproved("the snapshot has no guid");
    if (!received || shownValue(received, "guid") !== snapshot.proof)
      throw unproved("it lacks the snapshot that was sent");
    const changed = shownValue(entry, written);
    if (changed !== "0") throw unproved(`${changed ?? "unknown"} bytes were written since it was received`);
    await zfs.set(target, { [property.proof]: snapshot.proof }, signal);
  }

  /** Removes the snapshots that came with the streams; what others took stays. */
  async function removeReceived(): Promise<void> {
    for (const { name } of await zfs.below(target, ["snapshot"], ["guid"], 1, signal))
      if (isReceived(name)) await zfs.destroy(name, {}, signal);
  }

  /** The properties of the volume, except those that would mount or share it under its present name. */
  function closedValues(entry: Entry): Values {
    const {
      mountpoint: _mountpoint,
      canmount: _canmount,
      sharenfs: _nfs,
      sharesmb: _smb,
      volmode: _mode,
      ...values
    } = laterValues(plan.values);
    if (filesystem) return values;
    const present = bytesOf(shownValue(entry, "volsize"));
    return { ...values, volsize: String(plan.bytes > present ? plan.bytes : present) };
  }

  /** The properties that open the volume, which has its name. */
  function openValues(): Values {
    const values = laterValues(plan.values);
    const kept = { [property.copyTarget]: undefined };
    if (!filesystem) return { ...kept, volmode: values["volmode"] };
    const { mountpoint, canmount = "on", sharenfs, sharesmb } = values;
    return { ...kept, mountpoint, sharenfs, sharesmb, canmount };
  }

  const entries = await zfs.read(query, signal);
  const existing = entries.get(dataset);
  if (!existing) {
    const entry = entries.get(target);
    if (!entry) throw untrue(`received ${target}`);
    await prove(entry, entries.get(`${target}@${receivedName(snapshot.proof)}`));
    await removeReceived();
    const values = closedValues(entry);
    // Another process that has become the holder since then may have received a larger round; ZFS would cut off what is behind the size.
    const { volsize } = values;
    const grows = volsize === undefined ? {} : { grows: { property: "volsize", bytes: BigInt(volsize) } };
    await zfs.set(target, values, signal, { guid: shownValue(entry, "guid"), ...grows });
    const name = names.record(id);
    const record = (await zfs.read({ names: [name], properties: ["guid", property.copy] }, signal)).get(name);
    await stillHeld();
    // This process may be suspended even now: another one that has become the holder since then has changed the record.
    const still = { property: property.copy, value: ownValue(record, property.copy) ?? "", proved: false };
    await zfs.rename(target, dataset, signal, { of: name, guid: shownValue(record, "guid"), still });
  } else {
    const volume = volumeIn(id, existing, settings);
    if (!volume) {
      const why = whyNotVolume(id, existing, settings.marks) ?? "is of another type";
      throw storage.notOwn(`the dataset ${dataset} exists and ${why}`);
    }
    if (volume.finished || volume.copyOf?.handle !== spec.origin.handle) return volume;
    if (!isProved(existing)) throw storage.notOwn(`the unfinished volume ${dataset} is not this copy`);
  }
  await zfs.set(dataset, openValues(), signal);
  const opened = (await zfs.read(query, signal)).get(dataset);
  const volume = volumeIn(id, opened, settings);
  if (!volume) throw untrue(`renamed ${target} to ${dataset}`);
  // zfs refuses to mount what its node mounts (mountpoint=legacy).
  if (filesystem && volume.mountpoint !== undefined) await zfs.mount(dataset, signal);
  // zfs mount alone does not share (OpenZFS 2.1 to 2.3, cmd/zfs/zfs_main.c, share_mount_one).
  const isShared = ["sharenfs", "sharesmb"].some(key => (settings.sharing[key] ?? "off") !== "off");
  if (isShared) await zfs.share?.(dataset, signal);
  if (filesystem?.permissions) await storage.permit(dataset, filesystem.permissions, signal);
  return volume;
}
