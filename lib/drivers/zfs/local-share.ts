import type { Access } from "../../core/access.ts";
import type { Context } from "../driver.ts";
import type { Share } from "../store.ts";
import type { ZfsAsset } from "./asset.ts";

/** Datasets and zvols that the node uses itself: it is told which one. */
export class LocalShare implements Share<ZfsAsset> {
  readonly protocol = "zfs-local";
  readonly access: Access;
  readonly growsOnNode: boolean;

  /** `growsOnNode`: the volumes are devices, with file systems of the node on them. */
  constructor(access: Access, growsOnNode: boolean) {
    this.access = access;
    this.growsOnNode = growsOnNode;
  }

  context({ dataset }: ZfsAsset): Context {
    return { zfs_asset_name: dataset };
  }
}
