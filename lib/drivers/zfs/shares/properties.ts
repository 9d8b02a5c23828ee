import { type Access, protocols } from "../../../core/access.ts";
import type { Call } from "../../../core/call.ts";
import { CsiError } from "../../../core/errors.ts";
import type { Context } from "../../driver.ts";
import type { ShareProtocol } from "../../store.ts";
import { shownValue } from "../properties.ts";
import type { ZfsStorage } from "../storage.ts";
import type { ZfsVolume } from "../volume.ts";
import { type Entry, everyLevel, type Zfs } from "../zfs.ts";

/** How nodes reach a file system that is shared by NFS, by its mount point. */
export const nfsAddress =
  (server: string) =>
  (mountpoint: string): Context => ({ server, share: mountpoint });

/** File systems that ZFS shares because of one of their properties. `server`: the host as nodes reach it. */
export function propertyShare(
  protocol: "nfs" | "smb",
  server: string,
  zfs?: Pick<Zfs, "unused">,
): ShareProtocol<ZfsVolume> {
  /** Throws "failed-precondition" for a file system that is not mounted. */
  const addressOf = ({ dataset, mountpoint }: ZfsVolume): Context => {
    if (protocol === "smb") return { server, share: usershareName(dataset) };
    if (mountpoint !== undefined) return nfsAddress(server)(mountpoint);
    throw new CsiError(
      "failed-precondition",
      `${dataset} is not mounted, so NFS cannot share it; give the dataset above it a mountpoint`,
    );
  };
  /** A dataset that came with its properties (zfs receive) names the share of the one that it was sent from, which the same host may serve. */
  const isCopied = ({ dataset, mountpoint, isReceived }: ZfsVolume, share: string): boolean =>
    isReceived && share !== (protocol === "smb" ? usershareName(dataset) : (mountpoint ?? share));
  return {
    ...{ protocol, access: protocols[protocol], growsOnNode: false, reach: { server } },
    publish: async volume => (volume.finished ? {} : addressOf(volume)),
    // Samba does not tell who uses a share.
    ...(zfs?.unused &&
      protocol === "nfs" && {
        unused: async ({ dataset, mountpoint }, { signal }) =>
          mountpoint === undefined ? undefined : zfs.unused?.(dataset, { protocol, mountpoint }, signal),
      }),
    existing: async volume => addressOf(volume),
    context(volume) {
      const { server: noted, share } = volume.notes;
      const isKnown = noted !== undefined && share !== undefined && !isCopied(volume, share);
      return isKnown ? { server: noted, share } : addressOf(volume);
    },
  };
}

/** Datasets and zvols that the node uses itself, by their names. `growsOnNode`: zvols, with file systems of the node. */
export const localShare = (access: Access, growsOnNode: boolean): ShareProtocol<ZfsVolume> => ({
  ...{ protocol: "zfs-local", access, growsOnNode },
  /** Nodes need nothing but the dataset. */
  existing: async () => ({}),
  context: ({ dataset }) => ({ zfs_asset_name: dataset }),
});

/** The name of a dataset's usershare, which the whole server shares (OpenZFS 2.1 to 2.3, lib/libshare/os/linux/smb.c, smb_enable_share_one). */
export const usershareName = (dataset: string): string => dataset.replace(/[-/: ]/g, "_");

/** Samba calls the file of a usershare by the share's name in small letters (source3/utils/net_usershare.c, net_usershare_add). */
export const usershareFile = (dataset: string): string => usershareName(dataset).toLowerCase();

/** The id of a claim's volume (external-provisioner), whose letters no other id has in another size. */
const ofClaim = /^pvc-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The other ids with the same usershare file; undefined where they are too many, so that all names have to be listed. */
function namesakesOf(id: string): readonly string[] | undefined {
  if (!ofClaim.test(id)) return undefined;
  const all = id
    .split("-")
    .slice(1)
    .reduce((heads, part) => heads.flatMap(head => [`${head}-${part}`, `${head}_${part}`]), ["pvc"]);
  return all.filter(each => each !== id);
}

/** Whether the volumes of a connection get usershares. */
const hasUsershares = ({ settings }: ZfsStorage): boolean => (settings.sharing["sharesmb"] ?? "off") !== "off";

/** Makes a volume. Throws "aborted" while another one with the same usershare is made: neither would see the other one yet. */
export const aloneWithShare = <T>(storage: ZfsStorage, id: string, make: () => Promise<T>): Promise<T> => {
  if (!hasUsershares(storage)) return make();
  return storage.shareNames.hold([`usershare ${usershareFile(storage.names.dataset(id))}`], make);
};

const isShared = (entry: Entry): boolean => (shownValue(entry, "sharesmb") ?? "off") !== "off";

/** Throws "failed-precondition" for a usershare of another volume: `net usershare add` would take it over. */
export async function refuseSameShare(storage: ZfsStorage, id: string, { signal }: Call): Promise<void> {
  const { names, zfs } = storage;
  if (!hasUsershares(storage)) return;
  const own = names.dataset(id);
  const others = namesakesOf(id)?.map(each => names.dataset(each));
  const found = others
    ? [...(await zfs.read({ names: [own, ...others], properties: ["type"] }, signal)).keys()]
    : (await zfs.below(names.pool, ["filesystem"], ["type", "sharesmb"], everyLevel, signal))
        // The name of a share has no levels: a volume of another connection may have the same.
        .filter(each => names.volumeOf(each.name) !== undefined || isShared(each))
        .map(({ name }) => name);
  const file = usershareFile(own);
  const other = found.find(name => name !== own && usershareFile(name) === file);
  if (other === undefined || found.includes(own)) return;
  throw storage.error("failed-precondition", `${other} has the share name ${file} of ${own}; choose another name`);
}
