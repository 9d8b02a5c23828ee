import type { Access } from "../../core/access.ts";
import type { Context } from "../driver.ts";
import type { ShareProtocol } from "../store.ts";
import type { ZfsVolume } from "./volume.ts";

/** Datasets and zvols that the node uses itself: it is told which one. */
export class LocalShare implements ShareProtocol<ZfsVolume> {
  readonly protocol = "zfs-local";
  readonly access: Access;
  readonly growsOnNode: boolean;

  /** `growsOnNode`: the volumes are devices, with file systems of the node on them. */
  constructor(access: Access, growsOnNode: boolean) {
    this.access = access;
    this.growsOnNode = growsOnNode;
  }

  context({ dataset }: ZfsVolume): Context {
    return { zfs_asset_name: dataset };
  }
}
