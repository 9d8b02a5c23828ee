import { join } from "node:path";
import { listOf, textOf } from "../vanishing.ts";
import { Failure, type Pools, type Thing } from "./pool.ts";
import { flags } from "./show.ts";

const lines = (head: string, advice: string, names: readonly Thing[]): string =>
  [head, advice, ...names.map(({ name }) => name)].join("\n");

/** zfs destroy [-r] [-R] [-f] [-p] [-v] [-n] [-d] NAME, where NAME may be DATASET@a,b,c%d */
export function destroy(pools: Pools, argv: readonly string[]): void {
  const { words, set } = flags(argv, "");
  const [name = ""] = words;
  if (name.includes("@")) destroySnapshots(pools, name, set);
  else destroyDataset(pools, name, set);
}

function destroyDataset(pools: Pools, name: string, set: ReadonlySet<string>): void {
  const thing = pools.find(name);
  if (!thing) throw new Failure(`cannot open '${name}': dataset does not exist`);
  const children = pools.below(name);
  const kind = thing.type === "volume" ? "volume" : "filesystem";
  if (children.length > 0 && !set.has("r") && !set.has("R"))
    throw new Failure(
      lines(`cannot destroy '${name}': ${kind} has children`, "use '-r' to destroy the following datasets:", children),
    );
  const all = [thing, ...children];
  const inside = new Set(all.map(each => each.guid));
  const outside = all.flatMap(each => pools.clonesOf(each)).filter(each => !inside.has(each.guid));
  if (outside.length > 0 && !set.has("R"))
    throw new Failure(
      lines(
        `cannot destroy '${name}': ${kind} has dependent clones`,
        "use '-R' to destroy the following datasets:",
        outside,
      ),
    );
  if (set.has("n")) return;
  pools.release(thing, "destroy");
  refuseOwned(pools, thing);
  refuseOpened(pools, all);
  const held = all.find(each => (each.holds ?? []).length > 0);
  if (held) throw new Failure(heldText(held));
  for (const each of [...all].sort((a, b) => (a.name < b.name ? 1 : -1))) pools.remove(each);
}

/**
 * A zvol whose device a target has opened cannot go (OpenZFS 2.1 to 2.3, module/os/linux/zfs/zvol_os.c, zvol_open: the objset is owned;
 * dsl_destroy_head_check: EBUSY). LIO opens it when the backstore is enabled (Linux 6.1, drivers/target/target_core_iblock.c,
 * iblock_configure_device), nvmet when the namespace is (drivers/nvme/target/io-cmd-bdev.c).
 */
function refuseOpened({ folder }: Pools, things: readonly Thing[]): void {
  const opened = openedDevices(folder);
  for (const { name, type } of things)
    if (type === "volume" && opened.has(join(folder, "dev", name)))
      throw new Failure(`cannot destroy '${name}': dataset is busy`);
}

/** The devices of the targets of a host. */
function openedDevices(folder: string): ReadonlySet<string> {
  const [core, subsystems] = [join(folder, "lio/core"), join(folder, "nvmet/subsystems")];
  // The kernel's targets change without a lock of the pools.
  const text = (path: string): string => textOf(path).trim();
  const backstores = listOf(core).flatMap(hba => listOf(join(core, hba)).map(each => join(core, hba, each)));
  const namespaces = listOf(subsystems).flatMap(each =>
    listOf(join(subsystems, each, "namespaces")).map(id => join(subsystems, each, "namespaces", id)),
  );
  const enabled = (places: readonly string[]) => places.filter(each => text(join(each, "enable")) === "1");
  const paths = [
    ...enabled(backstores).map(each => join(each, "udev_path")),
    ...enabled(namespaces).map(each => join(each, "device_path")),
  ];
  return new Set(paths.map(text));
}

const clonedText = (pools: Pools, { name, ...thing }: Thing): string =>
  lines(
    `cannot destroy '${name}': snapshot has dependent clones`,
    "use '-R' to destroy the following datasets:",
    pools.clonesOf({ name, ...thing }),
  );

const heldText = (thing: Thing): string =>
  `cannot destroy snapshot ${thing.name}: it's being held. Run 'zfs holds -r ${thing.name}' to see holders.`;

function refuseOwned(pools: Pools, { name, type }: Thing): void {
  const { owned, busy } = pools.state.faults;
  const counts = type === "volume" && busy?.[name] ? busy : owned;
  const left = counts?.[name] ?? 0;
  if (!counts || left <= 0) return;
  counts[name] = left - 1;
  throw new Failure(`cannot destroy '${name}': dataset is busy`);
}

/** The snapshots of a list such as a,b,c%d; a part before or after "%" that is empty means the first or the last one. */
function matching(pools: Pools, dataset: string, text: string): Thing[] {
  const all = pools
    .below(dataset)
    .filter(each => each.name.startsWith(`${dataset}@`))
    .sort((a, b) => a.txg - b.txg);
  const at = (name: string): number => all.findIndex(each => each.name === `${dataset}@${name}`);
  return text.split(",").flatMap(part => {
    const [first = "", last] = part.split("%");
    if (last === undefined) return all.filter(each => each.name === `${dataset}@${part}`);
    const from = first === "" ? 0 : at(first);
    const to = last === "" ? all.length - 1 : at(last);
    return from < 0 || to < 0 ? [] : all.slice(from, to + 1);
  });
}

function destroySnapshots(pools: Pools, name: string, set: ReadonlySet<string>): void {
  const [dataset = "", text = ""] = name.split("@");
  if (!pools.find(dataset)) throw new Failure(`cannot open '${dataset}': dataset does not exist`);
  const found = matching(pools, dataset, text);
  if (found.length === 0) throw new Failure("could not find any snapshots to destroy; check snapshot names.");
  if (set.has("n")) return;
  // All of them or none: each is checked before anything is destroyed (OpenZFS 2.2.9, cmd/zfs/zfs_main.c, snapshot_to_nvl_cb; the request
  // itself too, dsl_destroy_snapshots_nvl). Those that are not there are passed over (gather_snapshots).
  const cloned = found.find(each => pools.clonesOf(each).length > 0);
  if (cloned && !set.has("d") && !set.has("R")) throw new Failure(clonedText(pools, cloned));
  const some = found.find(each => (each.holds ?? []).length > 0);
  if (some && !set.has("d")) throw new Failure(heldText(some));
  for (const each of found) {
    const clones = pools.clonesOf(each);
    const held = (each.holds ?? []).length > 0;
    if (set.has("d") && (clones.length > 0 || held)) each.defer = true;
    else if (clones.length === 0) pools.remove(each);
    else for (const clone of clones) destroy(pools, ["-R", clone.name]);
  }
}
