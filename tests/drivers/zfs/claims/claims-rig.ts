import type { ClaimsAbility, Driver, RetentionAbility, Volume } from "../../../../lib/drivers/driver.ts";
import type { Tenant } from "../../../../lib/drivers/tenure.ts";
import { callWith, getVolume, volumeOf } from "../../../contract/rig.ts";
import type { ZfsRig } from "../zfs-rig.ts";

// The volume pvc-1 of the claim shop/data.

const call = callWith();

export const tenant = (holder: string, retain = true): Tenant => ({
  ...{ claim: "shop/data", holder, shape: "mount:ext4", retain },
});

export const make = (driver: Driver, retain = true): Promise<Volume> =>
  driver.create({ ...volumeOf("pvc-1"), tenant: tenant("pvc-1", retain) }, call);

export function retentionOf({ retention }: Driver): RetentionAbility {
  if (!retention) throw new Error("this driver keeps no volumes");
  return retention;
}

export function claimsOf(driver: Driver): ClaimsAbility {
  const { claims } = retentionOf(driver);
  if (!claims) throw new Error("this driver adopts no volumes");
  return claims;
}

export const take = (driver: Driver, holder: string): Promise<Volume> =>
  claimsOf(driver).take("pvc-1", tenant(holder), call);

/** The holder of the volume, and whether it was given up. */
export async function state(rig: ZfsRig): Promise<string> {
  const { tenure } = await getVolume(rig.open(), "pvc-1");
  return `${tenure?.holder}${tenure?.released === undefined ? "" : " released"}`;
}

/** Makes the volume, with data, of a class that keeps it, and gives it up. */
export async function giveUp(rig: ZfsRig): Promise<ZfsRig> {
  await rig.write(await make(rig.open()), "data");
  await rig.open().delete("pvc-1", call);
  return rig;
}
