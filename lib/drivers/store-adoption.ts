import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { AdoptedVolume, Context, Volume } from "./driver.ts";
import type { ConnectionIdentity } from "./module.ts";
import type { ShareProtocol, StoredVolume, VolumeStore } from "./store.ts";

/** The parts of StoreVolumes. */
export interface VolumeParts<A extends StoredVolume> {
  readonly identity: ConnectionIdentity;
  readonly store: VolumeStore<A>;
  readonly share: ShareProtocol<A>;
  /** Runs while no other call of this process changes the volume. */
  alone<T>(id: string, work: () => Promise<T>): Promise<T>;
}

/** The volume in an asset: equal in every answer (CSI Volume.volume_context). */
export function volumeOf<A extends StoredVolume>(
  { identity: { driver, instanceId }, share }: Pick<VolumeParts<A>, "identity" | "share">,
  asset: A,
): Volume {
  const { reach = {} } = share;
  const own = share.context(asset);
  const context: Context = {
    node_attach_driver: share.protocol,
    provisioner_driver: driver,
    ...(instanceId !== undefined && { provisioner_driver_instance_id: instanceId }),
    ...own,
    // The servers of the file, instead of those that it names.
    ...(Object.keys(reach).some(key => key in own) && reach),
  };
  const { id, bytes, source, tenure } = asset;
  return { id, bytes, context, source, ...(tenure && { tenure }) };
}

/** The refusal of an id without a finished volume. */
export const absent = ({ identity: { connection } }: Pick<VolumeParts<StoredVolume>, "identity">, id: string) =>
  new CsiError("not-found", `connection "${connection}": volume "${id.slice(0, 128)}" does not exist`);

/** Like AdoptAbility.adopt. */
export async function adoptedObject<A extends StoredVolume>(
  parts: VolumeParts<A>,
  object: string,
  mark: boolean,
  call: Call,
): Promise<AdoptedVolume> {
  const { identity, store, share } = parts;
  const refusal = (why: string) =>
    new CsiError("failed-precondition", `connection "${identity.connection}": "${object.slice(0, 255)}" ${why}`);
  const id = store.idOfObject ? store.idOfObject(object) : object;
  if (id === undefined) throw refusal("is not where this connection has its volumes; move it there first");
  return parts.alone(id, async () => {
    const own = await store.find(id, call);
    if (own?.finished) {
      // A copy that was received with its properties names the target of the volume that it was sent from.
      const [finding] = (await share.look?.([own], call))?.get(id) ?? [];
      if (finding) throw refusal(`cannot be reached by nodes: ${finding.message}; correct that first`);
      return { ...volumeOf(parts, mark ? await withoutClaim(parts, own, call) : own), marked: true };
    }
    if (own) throw refusal("is an unfinished volume of csimux, and may still be created or removed");
    const asset = await store.unmarked?.(id, call);
    if (!asset) throw absent(parts, id);
    if (!share.existing) throw refusal("cannot be adopted: this driver cannot find a target that a person made");
    const notes = await share.existing(asset, call);
    if (!mark) return { ...volumeOf(parts, { ...asset, notes }), marked: false };
    await store.mark?.(asset, notes, call);
    const marked = await store.find(id, call);
    if (!marked?.finished) throw refusal("did not keep its marks");
    return { ...volumeOf(parts, marked), marked: true };
  });
}

/** An asset that no claim gets again by itself: a person decides from now on whose it is. Whether it is kept stays as it is. */
async function withoutClaim<A extends StoredVolume>(
  { store: { tenures } }: VolumeParts<A>,
  asset: A,
  call: Call,
): Promise<A> {
  if (!tenures || asset.tenure?.claim === undefined) return asset;
  const tenure = { ...asset.tenure, claim: undefined, released: undefined };
  await tenures.replace(asset, tenure, false, call);
  return { ...asset, tenure };
}
