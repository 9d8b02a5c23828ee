import type { Access } from "../../core/access.ts";
import { CsiError } from "../../core/errors.ts";
import { protocols } from "../../core/protocols.ts";
import type { Context } from "../driver.ts";
import type { Notes, ShareProtocol } from "../store.ts";
import { usershareName } from "./cli/usershare.ts";
import type { ZfsVolume } from "./volume.ts";

/**
 * File systems that ZFS shares by a property of theirs, which a new volume has from its beginning; so there is nothing to do but to
 * say where it is.
 */
export class PropertyShare implements ShareProtocol<ZfsVolume> {
  readonly protocol: "nfs" | "smb";
  readonly access: Access;
  readonly growsOnNode = false;
  readonly reach: Context;
  readonly #server: string;

  /** `server`: the host as nodes reach it. */
  constructor(protocol: "nfs" | "smb", server: string) {
    this.protocol = protocol;
    this.access = protocols[protocol];
    this.#server = server;
    this.reach = { server };
  }

  /** A volume keeps its share for its whole life. */
  async publish(asset: ZfsVolume): Promise<Notes> {
    return asset.finished ? {} : this.#place(asset);
  }

  context(asset: ZfsVolume): Context {
    const { server, share } = asset.notes;
    return server !== undefined && share !== undefined ? { server, share } : this.#place(asset);
  }

  /** Throws "failed-precondition" for a file system that is not mounted anywhere. */
  #place({ dataset, mountpoint }: ZfsVolume): { readonly server: string; readonly share: string } {
    if (this.protocol === "smb") return { server: this.#server, share: usershareName(dataset) };
    if (mountpoint !== undefined) return { server: this.#server, share: mountpoint };
    throw new CsiError(
      "failed-precondition",
      `${dataset} is not mounted, so NFS cannot share it; give the dataset above it a mountpoint`,
    );
  }
}
