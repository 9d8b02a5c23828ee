/** Creates one value per name, on first use; implements StorageHost.shared. */
export function memoizeByKey(): <T>(what: string, make: () => T) => T {
  const made = new Map<string, unknown>();
  return <T>(what: string, make: () => T): T => {
    if (!made.has(what)) made.set(what, make());
    return made.get(what) as T;
  };
}
