import { type Access, protocols } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Context } from "../driver.ts";
import type { Notes, ShareProtocol } from "../store.ts";
import type { ConnectionContext } from "./storage.ts";
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

/**
 * The name that OpenZFS gives to a usershare (OpenZFS 2.1 to 2.3, lib/libshare/os/linux/smb.c, smb_enable_share_one): of the whole
 * dataset, since names are the server's.
 */
export const usershareName = (dataset: string): string => dataset.replace(/[-/: ]/g, "_");

/** How many characters of an id are varied; ids of claims (pvc-<uuid>) have five. With more, all names are listed. */
const mostVaried = 6;

/** Ids that give the same name as this one. Undefined when there are too many. */
function namesakesOf(id: string): readonly string[] | undefined {
  const parts = id.split(/[-_]/);
  if (parts.length - 1 > mostVaried) return undefined;
  const all = parts
    .slice(1)
    .reduce((heads, part) => heads.flatMap(head => [`${head}-${part}`, `${head}_${part}`]), [parts[0] ?? ""]);
  return all.filter(each => each !== id);
}

/**
 * Throws "failed-precondition" when another dataset of the connection has the usershare name that a new volume would get: `net usershare
 * add` would take the name from it, and its users would see the new volume.
 */
export async function refuseSameShare(space: ConnectionContext, id: string, call: Call): Promise<void> {
  const { names, settings, zfs } = space;
  if ((settings.sharing["sharesmb"] ?? "off") === "off") return;
  const own = names.dataset(id);
  const others = namesakesOf(id)?.map(each => names.dataset(each));
  const look = { names: [own, ...(others ?? [])], properties: ["type"] };
  const found = others
    ? [...(await zfs.read(look, call.signal)).keys()]
    : (await zfs.below(names.parent, ["filesystem"], ["type"], 1, call.signal)).map(({ name }) => name);
  const share = usershareName(own);
  const other = found.find(name => name !== own && usershareName(name) === share);
  if (other === undefined || found.includes(own)) return;
  throw space.error(
    "failed-precondition",
    `the share name ${share} of ${own} is that of ${other}; choose another name`,
  );
}
