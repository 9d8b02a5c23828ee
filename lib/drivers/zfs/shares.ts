import { type Access, protocols } from "../../core/access.ts";
import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import type { Context } from "../driver.ts";
import type { Notes, ShareProtocol } from "../store.ts";
import type { ZfsStorage } from "./storage.ts";
import type { ZfsVolume } from "./volume.ts";

/** File systems that ZFS shares because of one of their properties, which a new volume has from its beginning. */
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
  async publish(volume: ZfsVolume): Promise<Notes> {
    return volume.finished ? {} : this.#address(volume);
  }

  async existing(volume: ZfsVolume): Promise<Notes> {
    return this.#address(volume);
  }

  context(volume: ZfsVolume): Context {
    const { server, share } = volume.notes;
    return server !== undefined && share !== undefined ? { server, share } : this.#address(volume);
  }

  /** Throws "failed-precondition" for a file system that is not mounted. */
  #address({ dataset, mountpoint }: ZfsVolume): { readonly server: string; readonly share: string } {
    if (this.protocol === "smb") return { server: this.#server, share: usershareName(dataset) };
    if (mountpoint !== undefined) return { server: this.#server, share: mountpoint };
    throw new CsiError(
      "failed-precondition",
      `${dataset} is not mounted, so NFS cannot share it; give the dataset above it a mountpoint`,
    );
  }
}

/** Datasets and zvols that the node uses itself, by their names. */
export class LocalShare implements ShareProtocol<ZfsVolume> {
  readonly protocol = "zfs-local";
  readonly access: Access;
  readonly growsOnNode: boolean;

  /** `growsOnNode`: the volumes are devices, with file systems of the node on them. */
  constructor(access: Access, growsOnNode: boolean) {
    this.access = access;
    this.growsOnNode = growsOnNode;
  }

  /** Nodes need nothing but the dataset. */
  async existing(): Promise<Notes> {
    return {};
  }

  context({ dataset }: ZfsVolume): Context {
    return { zfs_asset_name: dataset };
  }
}

/** The name of a dataset's usershare, which the whole server shares (OpenZFS 2.1 to 2.3, lib/libshare/os/linux/smb.c, smb_enable_share_one). */
const usershareName = (dataset: string): string => dataset.replace(/[-/: ]/g, "_");

/** The most characters of an id that are varied; ids of claims (pvc-<uuid>) have five. With more, all names are listed. */
const mostVaried = 6;

/** The other ids with the same usershare name; undefined when there are too many. */
function namesakesOf(id: string): readonly string[] | undefined {
  const parts = id.split(/[-_]/);
  if (parts.length - 1 > mostVaried) return undefined;
  const all = parts
    .slice(1)
    .reduce((heads, part) => heads.flatMap(head => [`${head}-${part}`, `${head}_${part}`]), [parts[0] ?? ""]);
  return all.filter(each => each !== id);
}

/**
 * Throws "failed-precondition" when another volume has the usershare name of a new one: `net usershare add` would take the name over,
 * and the other volume's users would see the new volume.
 */
export async function refuseSameShare(storage: ZfsStorage, id: string, { signal }: Call): Promise<void> {
  const { names, settings, zfs } = storage;
  if ((settings.sharing["sharesmb"] ?? "off") === "off") return;
  const own = names.dataset(id);
  const others = namesakesOf(id)?.map(each => names.dataset(each));
  const found = others
    ? [...(await zfs.read({ names: [own, ...others], properties: ["type"] }, signal)).keys()]
    : (await zfs.below(names.parent, ["filesystem"], ["type"], 1, signal)).map(({ name }) => name);
  const share = usershareName(own);
  const other = found.find(name => name !== own && usershareName(name) === share);
  if (other === undefined || found.includes(own)) return;
  throw storage.error("failed-precondition", `${other} has the share name ${share} of ${own}; choose another name`);
}
