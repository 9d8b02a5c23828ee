import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import type { Volume } from "../../../lib/drivers/driver.ts";
import { below } from "../../../scripts/check/below.ts";
import type { Foreign } from "../../contract/rig.ts";
import {
  backstoreChanges,
  changed,
  freeNumber,
  savedByTargetcli,
  subsystemChanges,
  targetChanges,
} from "../../fakes/configfs.ts";
import type { FakeSpdk } from "../../fakes/spdk.ts";
import type { FakeZfs } from "../../fakes/zfs/pools.ts";

/** The things that a person can make by hand under the names of a volume of ZFS. */

const parent = "tank/k/v";

/** Foreign zvols, whose devices targets made by hand show, begin with this. */
export const theirs = "tank/theirs";

/** A dataset with its properties and snapshots. */
const dataset = (fake: FakeZfs, name: string) => async () =>
  fake.with(pools =>
    structuredClone(pools.all().filter(each => each.name === name || each.name.startsWith(`${name}@`))),
  );

/** Removes the user properties of a dataset. */
export const unmarked = (fake: FakeZfs, name: string): void =>
  fake.with(pools => {
    const thing = pools.find(name);
    if (thing) thing.own = Object.fromEntries(Object.entries(thing.own).filter(([key]) => !key.includes(":")));
  });

/** Everything on the host: pools, targets and subsystems. */
export const wholeState = (fake: FakeZfs): unknown => [
  fake.with(pools => structuredClone({ ...pools.state, log: [] })),
  ...["lio", "nvmet"].map(each => tree(join(fake.folder, each))),
];

/** Every file and link below a folder with what it holds. */
function tree(folder: string): readonly string[] {
  if (!existsSync(folder)) return [];
  return below(folder).map(each => {
    const path = join(folder, each);
    const stats = lstatSync(path);
    const holds = stats.isSymbolicLink() ? readlinkSync(path) : stats.isFile() ? readFileSync(path, "utf8") : "folder";
    return `${each}: ${holds}`;
  });
}

/** Makes a foreign zvol, and gives the next volume the guid of the one that was just deleted. */
function again(fake: FakeZfs): string {
  const next = fake.with(pools => pools.state.next);
  const name = `${theirs}-${next}`;
  fake.zfs("create", "-s", "-V", "1G", name);
  fake.with(pools => {
    const thing = pools.find(name);
    if (thing) Object.assign(thing, { guid: `9000001${next}`, txg: 1 });
    pools.state.next = next - 1;
  });
  return join(fake.folder, "dev", name);
}

const bare = (fake: FakeZfs, what: string, ...options: readonly string[]): Foreign => ({
  what,
  place: "volume",
  async make({ id }) {
    fake.zfs("create", ...options, `${parent}/${id}`);
    return dataset(fake, `${parent}/${id}`);
  },
});

const snapshot = (fake: FakeZfs): Foreign => ({
  what: "a snapshot",
  place: "snapshot",
  async make(_, id) {
    fake.zfs("snapshot", `${parent}/${id}`);
    return dataset(fake, `${parent}/${id}`);
  },
});

/** The name of a volume's target as nodes know it, and the part behind its basename. */
const nameOf = ({ context }: Volume): { readonly whole: string; readonly asset: string } => {
  const whole = context["iqn"] ?? context["nqn"] ?? "";
  return { whole, asset: whole.split(":").slice(2).join(":") };
};

function lioTargets(fake: FakeZfs): readonly Foreign[] {
  const root = join(fake.folder, "lio");
  const make = (backstore: (asset: string) => string, luns: boolean) => async (volume: Volume) => {
    const device = again(fake);
    const { whole, asset } = nameOf(volume);
    const name = backstore(asset);
    const hba = freeNumber(fake.folder);
    changed(fake.folder, [
      ...backstoreChanges(hba, name, device),
      ...(luns ? targetChanges(fake.folder, hba, name, whole) : []),
    ]);
    savedByTargetcli(fake.folder);
    return async () => [
      tree(join(root, "iscsi", whole)),
      tree(join(root, "core")).filter(each => each.includes(`/${name}/`)),
    ];
  };
  return [
    {
      what: "a target on a backstore of its own",
      place: "way",
      make: make(asset => `mine-${asset.slice(0, 8)}`, true),
    },
    { what: "a target on a backstore of the same name", place: "way", make: make(asset => asset, true) },
    { what: "a backstore", place: "way", make: make(asset => asset, false) },
  ];
}

const subsystem = (fake: FakeZfs): Foreign => ({
  what: "a subsystem",
  place: "way",
  async make(volume) {
    const device = again(fake);
    const { whole } = nameOf(volume);
    changed(fake.folder, subsystemChanges(whole, device));
    return async () => [
      tree(join(fake.folder, "nvmet/subsystems", whole)),
      readdirSync(join(fake.folder, "nvmet/ports/1/subsystems")).includes(whole),
    ];
  },
});

const spdkThings = (fake: FakeZfs, spdk: FakeSpdk): readonly Foreign[] =>
  [true, false].map(whole => ({
    what: whole ? "a subsystem of SPDK with its bdev" : "a bdev of SPDK",
    place: "way",
    async make(volume) {
      const filename = again(fake);
      const { whole: nqn } = nameOf(volume);
      spdk.bdevs.set(nqn, { name: nqn, filename, block_size: 512, num_blocks: 2048 });
      const namespaces = [{ nsid: 1, bdev_name: nqn }];
      if (whole) spdk.subsystems.set(nqn, { nqn, attributes: {}, namespaces, listen_addresses: [] });
      return async () => structuredClone([spdk.bdevs.get(nqn), spdk.subsystems.get(nqn)]);
    },
  }));

/** The things that people make by hand on a host of this driver. */
export function handmade(fake: FakeZfs, driver: string, spdk: FakeSpdk | undefined): readonly Foreign[] {
  const sparse = ["-s", "-V", String(1n << 30n)];
  const ways: Readonly<Record<string, readonly Foreign[]>> = {
    "zfs-generic-iscsi": lioTargets(fake),
    "zfs-generic-nvmeof": spdk ? spdkThings(fake, spdk) : [subsystem(fake)],
  };
  return [bare(fake, "a zvol", ...sparse), bare(fake, "a dataset"), snapshot(fake), ...(ways[driver] ?? [])];
}
