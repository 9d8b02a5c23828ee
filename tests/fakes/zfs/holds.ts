import { Failure, type Pools } from "./pool.ts";

/** zfs hold TAG SNAPSHOT and zfs release TAG SNAPSHOT; the texts: OpenZFS 2.1 to 2.3, lib/libzfs/libzfs_util.c, zfs_error_text. */
export function hold(pools: Pools, argv: readonly string[], on: boolean): void {
  const [tag = "", name = ""] = argv;
  const thing = pools.find(name);
  const head = on ? "cannot hold snapshot" : "cannot release hold from snapshot";
  if (!thing) throw new Failure(`${head} '${name}': dataset does not exist`);
  const others = (thing.holds ?? []).filter(each => each !== tag);
  const had = others.length < (thing.holds ?? []).length;
  if (on && had) throw new Failure(`cannot hold snapshot '${name}': tag already exists on this dataset`);
  if (!on && !had) throw new Failure(`cannot release hold from snapshot '${name}': no such tag on this dataset`);
  thing.holds = on ? [...others, tag] : others;
  pools.reap(thing);
}
