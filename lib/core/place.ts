/** The object of the storage system in a volume context, such as "share /mnt/tank/pvc-1"; undefined if it names none. */
export function placeOf(context: Readonly<Record<string, unknown>>): string | undefined {
  const keys = ["iqn", "nqn", "share", "path", "zfs_asset_name", "filesystem"];
  const key = keys.find(each => typeof context[each] === "string");
  return key && `${key} ${String(context[key])}`;
}

/**
 * A place without its slashes at both ends. Servers are not compared, because a name can be written in several ways: equal texts may be the
 * same storage, different ones are not.
 */
const comparable = (place: string): string => place.replace(/ \/+/, " ").replace(/\/+$/, "");

/** Finds the PersistentVolume of a volume: of its handle, or with the same storage under another driver name or handle. */
export function claimFinder<T extends { readonly handle: string; readonly place?: string | undefined }>(
  pvs: readonly T[],
) {
  const byHandle = new Map(pvs.map(each => [each.handle, each]));
  const byPlace = new Map(
    pvs.flatMap(each => (each.place === undefined ? [] : [[comparable(each.place), each] as const])),
  );
  return ({ id, place }: { readonly id: string; readonly place?: string | undefined }): T | undefined =>
    byHandle.get(id) ?? (place === undefined ? undefined : byPlace.get(comparable(place)));
}
