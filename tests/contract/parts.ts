import type { Driver } from "../../lib/drivers/driver.ts";
import type { StoredVolume } from "../../lib/drivers/store.ts";
import { StoreDriver } from "../../lib/drivers/store-driver.ts";
import type { DriverRig } from "./rig.ts";
import type { ShareRig } from "./share.ts";
import type { StoreRig } from "./store.ts";

/** The store and the share that a driver is made of. */
function partsOf(driver: Driver): Pick<StoreDriver<StoredVolume>, "store" | "share"> {
  if (driver instanceof StoreDriver) return driver;
  throw new Error("this driver is not made of a store and a share");
}

/** The store and the share of a rig's drivers. */
export const shareRig = (rig: DriverRig): ShareRig<StoredVolume> => ({
  open: () => partsOf(rig.open()),
  dying(step, when) {
    const { driver, dead } = rig.dying(step, when);
    const { store, share } = partsOf(driver);
    return { store, share, dead };
  },
  remains: () => rig.remains(),
  close: () => rig.close(),
});

/** The store of a rig's drivers; `noteKeys` as of StoreRig. */
export const storeRig = (rig: DriverRig, noteKeys?: readonly string[]): StoreRig<StoredVolume> => {
  const parts = shareRig(rig);
  return {
    ...parts,
    open: () => parts.open().store,
    ...(noteKeys && { noteKeys }),
    ...(rig.losePower && { losePower: rig.losePower }),
  };
};
