import { Failure, type Pools } from "./pool.ts";

/** zfs mount NAME and zfs unmount NAME */
export function mount(pools: Pools, argv: readonly string[], on: boolean): void {
  const name = argv.at(-1) ?? "";
  const thing = pools.find(name);
  if (!thing) throw new Failure(`cannot open '${name}': dataset does not exist`);
  if (on && thing.own["mountpoint"]?.value === "legacy") throw new Failure(`cannot mount '${name}': legacy mountpoint`);
  if (on && thing.mounted) throw new Failure(`cannot mount '${name}': filesystem already mounted`);
  if (!on && !thing.mounted) throw new Failure(`cannot unmount '${name}': not currently mounted`);
  if (on) pools.mount(thing);
  else pools.release(thing, "unmount");
}

/** zfs share NAME */
export function share(pools: Pools, argv: readonly string[]): void {
  const name = argv.at(-1) ?? "";
  const thing = pools.find(name);
  if (!thing) throw new Failure(`cannot open '${name}': dataset does not exist`);
  if (pools.protocols(thing).length === 0) throw new Failure(`cannot share '${name}': legacy share`);
  pools.share(thing);
}
