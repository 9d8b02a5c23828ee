import type { Call } from "../../../core/call.ts";
import type { ConnectionContext } from "../connection-context.ts";

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
