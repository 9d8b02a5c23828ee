import type { Call } from "../core/call.ts";
import { CsiError, hasCode } from "../core/errors.ts";
import type { ClaimedVolume, ClaimsAbility, RetentionAbility } from "./driver.ts";
import type { StoredVolume } from "./store.ts";
import { absent, type VolumeParts, volumeOf } from "./store-adoption.ts";
import { type Tenant, type Tenure, tenureText } from "./tenure.ts";

// Whose the volumes of a store are: what is written with them when they are given up, and when a claim gets them again.

/** Gives up what exists with this id, if it belongs to a claim. Returns whether it did. */
async function released<A extends StoredVolume>(parts: VolumeParts<A>, id: string, call: Call): Promise<boolean> {
  const asset = await parts.store.find(id, call);
  return asset?.finished === true && asset.tenure !== undefined && givenUp(parts, asset, asset.tenure, call);
}

async function givenUp<A extends StoredVolume>(
  { store: { tenures } }: VolumeParts<A>,
  asset: A,
  tenure: Tenure,
  call: Call,
): Promise<boolean> {
  if (!tenures) return false;
  if (tenure.released !== undefined) return true;
  // Kept from now on, also by the next holder: DeleteVolume does not say whose it was, so a late one may be that of an earlier holder.
  await tenures.replace(asset, { ...tenure, retain: true, released: tenures.identityOf(asset) }, false, call);
  return true;
}

const stays = new Error("the volume is given up instead");

/** Removes a volume, or gives it up if its class keeps its volumes. `remove` calls `check` before it changes anything. */
export async function removedOrReleased<A extends StoredVolume>(
  parts: VolumeParts<A>,
  id: string,
  remove: (check: (asset: A) => void) => Promise<void>,
  call: Call,
): Promise<void> {
  const isKept = (asset: A | undefined) => asset?.finished === true && asset.tenure?.retain === true;
  let kept: A | undefined;
  const check = (asset: A) => {
    if (!isKept(asset)) return;
    kept = asset;
    throw stays;
  };
  try {
    await remove(check);
  } catch (error) {
    // What hinders a removal, such as snapshots, does not hinder this.
    const isHindered = hasCode(error, "failed-precondition");
    if (!parts.store.tenures || (error !== stays && !isHindered)) throw error;
    const asset = kept ?? (await parts.store.find(id, call));
    if (!asset?.tenure || !isKept(asset)) throw error;
    await givenUp(parts, asset, asset.tenure, call);
    call.log.info("volume left in place: its class has deleteStrategy: retain, or it was given up before", {
      volume: id,
      claim: asset.tenure.claim,
    });
  }
}

/** A volume that is returned to the request that has made it belongs to that again. */
export async function keptAgain<A extends StoredVolume>(
  { store: { tenures } }: VolumeParts<A>,
  asset: A,
  call: Call,
): Promise<A> {
  if (!tenures || asset.tenure?.released === undefined) return asset;
  const tenure = { ...asset.tenure, released: undefined };
  await tenures.replace(asset, tenure, false, call);
  return { ...asset, tenure };
}

/** Like ClaimsAbility.ofClaim. */
async function volumesOfClaim<A extends StoredVolume>(
  parts: VolumeParts<A>,
  claim: string,
  call: Call,
): Promise<readonly ClaimedVolume[]> {
  const { identity, store } = parts;
  const { connection, instanceId } = identity;
  if (instanceId === undefined)
    throw new CsiError(
      "failed-precondition",
      `connection "${connection}": the class has adopt: byClaim, which needs instance_id in the file of the connection: without one, csimux cannot distinguish the volumes of two clusters that use this storage`,
    );
  const all = await store.list?.({ token: undefined, max: Number.MAX_SAFE_INTEGER }, call);
  return (all?.items ?? []).flatMap(asset =>
    asset.tenure?.claim === claim
      ? [
          {
            volume: volumeOf(parts, asset),
            tenure: asset.tenure,
            identity: store.tenures?.identityOf(asset) ?? "",
            instance: instanceId,
          },
        ]
      : [],
  );
}

/** Like ClaimsAbility.take. */
async function taken<A extends StoredVolume>(
  parts: VolumeParts<A>,
  id: string,
  tenant: Tenant,
  call: Call,
): Promise<A> {
  const { identity, store, share } = parts;
  const { tenures } = store;
  const asset = await store.find(id, call);
  if (!asset?.finished || !asset.tenure || !tenures) throw absent(parts, id);
  const { released: givenUpAs, ...before } = asset.tenure;
  const isHeld = givenUpAs === undefined && before.holder === tenant.holder && before.claim === tenant.claim;
  if (isHeld) return asset;
  const changed = new CsiError(
    "aborted",
    `connection "${identity.connection}": volume "${id}" was given to another claim meanwhile; retry`,
  );
  const isFree =
    givenUpAs === tenures.identityOf(asset) &&
    givenUpAs !== "" &&
    before.claim === tenant.claim &&
    before.shape === tenant.shape &&
    before.instance === identity.instanceId;
  if (!isFree) throw changed;
  await share.unused?.(asset, call);
  const tenure: Tenure = { ...tenant, retain: true, instance: identity.instanceId };
  await tenures.replace(asset, tenure, true, call);
  const now = await store.find(id, call);
  if (!now?.finished || !now.tenure || tenureText(now.tenure) !== tenureText(tenure)) throw changed;
  return now;
}

/** Like ClaimsAbility.giveBack. */
async function givenBack<A extends StoredVolume>(
  parts: VolumeParts<A>,
  id: string,
  { holder }: Tenant,
  call: Call,
): Promise<void> {
  const asset = await parts.store.find(id, call);
  if (asset?.finished && asset.tenure?.holder === holder) await givenUp(parts, asset, asset.tenure, call);
}

/** Like ClaimsAbility.unused. */
async function refuseUsed<A extends StoredVolume>(parts: VolumeParts<A>, id: string, call: Call): Promise<void> {
  const asset = await parts.store.find(id, call);
  if (!asset?.finished) throw absent(parts, id);
  await parts.share.unused?.(asset, call);
}

/** The methods of RetentionAbility and ClaimsAbility. */
export type Tenancy = Pick<RetentionAbility, "release"> & ClaimsAbility;

/** Whose the volumes of a store are. `completed` makes an asset reachable, as after its creation. */
export const tenancyOf = <A extends StoredVolume>(
  parts: VolumeParts<A>,
  completed: (asset: A, call: Call) => Promise<A>,
): Tenancy => ({
  release: (id, call) => parts.alone(id, () => released(parts, id, call)),
  ofClaim: (claim, call) => volumesOfClaim(parts, claim, call),
  take: (id, tenant, call) =>
    parts.alone(id, async () => volumeOf(parts, await completed(await taken(parts, id, tenant, call), call))),
  giveBack: (id, tenant, call) => parts.alone(id, () => givenBack(parts, id, tenant, call)),
  unused: (id, call) => refuseUsed(parts, id, call),
});
