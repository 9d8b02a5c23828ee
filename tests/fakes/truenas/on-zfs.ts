import { set } from "../zfs/change.ts";
import type { FakeZfs } from "../zfs/pools.ts";
import type { Elsewhere } from "./state.ts";

/** The datasets of a model of ZFS, for a double that shares what is made there: both are one system then. */
export const datasetsOf = (fake: FakeZfs): Elsewhere => ({
  has: name => fake.with(pools => pools.all().some(each => each.name === name || pools.place(each) === `/${name}`)),
  grow: (name, volsize) => fake.with(pools => set(pools, [`volsize=${volsize}`, name])),
});
