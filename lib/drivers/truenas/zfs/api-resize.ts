import type { Zfs } from "../../zfs/zfs.ts";

/**
 * The pools behind `cli`, with block devices grown by TrueNAS itself: it tells initiators of iSCSI and NVMe about a new size, but
 * only when it is the one that changes it.
 */
export const withApiResize = (cli: Zfs, server: Pick<Zfs, "set">): Zfs => ({
  together: cli.together,
  fixed: cli.fixed,
  read: (look, signal) => cli.read(look, signal),
  create: (dataset, parents, look, signal) => cli.create(dataset, parents, look, signal),
  clone: (dataset, origin, look, signal) => cli.clone(dataset, origin, look, signal),
  permit: (name, permissions, signal) => cli.permit(name, permissions, signal),
  snapshot: (names, values, look, signal) => cli.snapshot(names, values, look, signal),
  namesakes: (wanted, look, signal) => cli.namesakes(wanted, look, signal),
  below: (parent, kinds, properties, depth, signal) => cli.below(parent, kinds, properties, depth, signal),
  family: (dataset, look, signal) => cli.family(dataset, look, signal),
  destroy: (name, how, signal) => cli.destroy(name, how, signal),
  rename: (from, to, signal) => cli.rename(from, to, signal),
  mount: (name, signal) => cli.mount(name, signal),
  pools: (names, signal) => cli.pools(names, signal),
  copy: (copy, signal) => cli.copy(copy, signal),
  async set(name, { volsize, ...others }, signal) {
    if (Object.keys(others).length > 0) await cli.set(name, others, signal);
    if (volsize !== undefined) await server.set(name, { volsize }, signal);
  },
});
