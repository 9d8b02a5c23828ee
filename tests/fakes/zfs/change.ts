import { Failure, type Pools, type Thing, UsageFailure } from "./pool.ts";
import { bytesOf, natives } from "./properties.ts";
import { flags, free } from "./show.ts";

type Pairs = readonly (readonly [string, string])[];

const nameShape = /^[A-Za-z0-9][A-Za-z0-9_.: -]*(?:\/[A-Za-z0-9][A-Za-z0-9_.: -]*)*(?:@[A-Za-z0-9_.:+ -]+)?$/;
const longest = 255;

/** Takes `-o name=value` and its like out of an argv. */
function options(argv: readonly string[], letter: string): { readonly pairs: Pairs; readonly rest: readonly string[] } {
  const pairs: (readonly [string, string])[] = [];
  const rest: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const word = argv[at] ?? "";
    if (word !== `-${letter}`) rest.push(word);
    else pairs.push(pair(argv[++at] ?? ""));
  }
  return { pairs, rest };
}

function pair(word: string): readonly [string, string] {
  const cut = word.indexOf("=");
  if (cut < 0) throw new Failure("missing '=' for property=value argument");
  return [word.slice(0, cut), word.slice(cut + 1)];
}

/** A new value in the form in which it is kept. Throws as zfs does. */
function checked(thing: Thing, name: string, value: string, fresh: boolean, head: string): string {
  if (name.includes(":")) {
    if (value.length > 8191) throw new Failure(`${head}: property '${name}' value too long`);
    return value;
  }
  const native = natives[name];
  if (!native || native.computed) throw new Failure(`${head}: invalid property '${name}'`);
  if (native.createOnly && !fresh) throw new Failure(`${head}: '${name}' is readonly`);
  if (!native.types.includes(thing.type))
    throw new Failure(`${head}: '${name}' does not apply to datasets of this type`);
  if (native.valid && !native.valid.test(value)) throw new Failure(`${head}: bad numeric value '${value}'`);
  const isSize = native.valid?.test("1G") ?? false;
  // Sizes are 64 bits wide, more than a number of this language holds (OpenZFS 2.1 to 2.3, lib/libzfs/libzfs_util.c, zfs_nicestrtonum).
  if (isSize && value !== "auto") return /^\d+$/.test(value) ? String(BigInt(value)) : String(bytesOf(value));
  return value;
}

/** Sets native and user properties of a dataset. `fresh`: it is being made. */
function apply(pools: Pools, thing: Thing, pairs: Pairs, fresh: boolean): void {
  const head = fresh ? `cannot create '${thing.name}'` : `cannot set property for '${thing.name}'`;
  // ZFS takes the values of one command together, so that a reservation follows the size that is set with it.
  const ordered = [...pairs].sort((a, b) => Number(b[0] === "volsize") - Number(a[0] === "volsize"));
  for (const [name, raw] of ordered) {
    const value = checked(thing, name, raw, fresh, head);
    if (name === "volsize") refuseVolsize(pools, thing, Number(value), head);
    if (name === "refquota" && value !== "0" && Number(value) < pools.bytes(thing))
      throw new Failure(`${head}: size is less than current used or reserved space`);
    if (name === "refreservation" && value === "auto") {
      thing.own[name] = { value: thing.own["volsize"]?.value ?? "0", source: "local" };
      continue;
    }
    if (/reservation$/.test(name) && Number(value) > free(pools, thing.name) + bytesOf(thing.own[name]?.value ?? "0"))
      throw new Failure(`${head}: size is greater than available space`);
    const wasMounted = thing.mounted === true;
    if (wasMounted && (name === "mountpoint" || (name === "canmount" && value === "off"))) pools.unmount(thing);
    thing.own[name] = { value, source: "local" };
    if (wasMounted && name === "mountpoint") pools.mount(thing);
  }
}

function refuseVolsize(pools: Pools, thing: Thing, bytes: number, head: string): void {
  const block = Number(pools.value(thing, "volblocksize").value);
  if (bytes <= 0 || bytes % block !== 0)
    throw new Failure(`${head}: 'volsize' must be a multiple of volume block size (${block / 1024}K)`);
}

function refuseNew(pools: Pools, name: string, head = `cannot create '${name}'`): void {
  if (!nameShape.test(name)) throw new Failure(`${head}: invalid character in name`);
  if (name.length > longest) throw new Failure(`${head}: name is too long`);
  if (pools.find(name)) throw new Failure(`${head}: dataset already exists`);
  const parent = pools.find(name.slice(0, name.lastIndexOf("/")));
  if (!name.includes("/") || !pools.state.pools[name.split("/")[0] ?? ""]?.imported)
    throw new Failure(`${head}: no such pool '${name.split("/")[0]}'`);
  if (!parent) throw new Failure(`cannot create '${name}': parent does not exist`);
  if (parent.type !== "filesystem") throw new Failure(`${head}: parent is not a filesystem`);
}

function withParents(pools: Pools, name: string): void {
  const parts = name.split("/");
  for (let length = 2; length < parts.length; length++) {
    const each = parts.slice(0, length).join("/");
    if (pools.find(parts[0] ?? "") && !pools.find(each)) pools.mount(pools.add(each, "filesystem"));
  }
}

/**
 * Mounts and shares a new file system. One that cannot be shared exists and is mounted, and the command fails (OpenZFS 2.1.11 to 2.3.4,
 * cmd/zfs/zfs_main.c, zfs_mount_and_share; lib/libzfs/libzfs_mount.c, zfs_share_proto).
 */
function mountAndShare(pools: Pools, thing: Thing): void {
  if (pools.value(thing, "canmount").value !== "on") return;
  const [first] = pools.protocols(thing);
  if (!pools.state.faults.unshared || first === undefined) {
    pools.share(thing);
    return;
  }
  pools.mount(thing);
  throw new Failure(
    `cannot share '${thing.name}: system error': ${first === "sharenfs" ? "NFS" : "SMB"} share creation failed\n` +
      "filesystem successfully created, but not shared",
  );
}

/** zfs create [-p] [-u] [-s] (-o K=V)* [-b SIZE] [-V SIZE] NAME */
export function create(pools: Pools, argv: readonly string[]): void {
  const { pairs, rest } = options(argv, "o");
  const { words, set, values } = flags(rest, "Vb");
  const [name = ""] = words;
  if (set.has("p") && pools.find(name)) return;
  if (set.has("p")) withParents(pools, name);
  refuseNew(pools, name);
  const bytes = values["V"];
  const thing = pools.add(name, bytes === undefined ? "filesystem" : "volume");
  try {
    const block: Pairs = values["b"] ? [["volblocksize", values["b"]]] : [];
    apply(pools, thing, [...block, ...pairs.filter(([key]) => key === "volblocksize")], true);
    if (bytes !== undefined) apply(pools, thing, [["volsize", bytes]], true);
    if (bytes !== undefined && !set.has("s"))
      thing.own["refreservation"] = { value: String(bytesOf(bytes)), source: "local" };
    apply(
      pools,
      thing,
      pairs.filter(([key]) => key !== "volblocksize"),
      true,
    );
    const room = pools.state.pools[name.split("/")[0] ?? ""]?.bytes ?? 0;
    if (Number(thing.own["refreservation"]?.value ?? 0) > room)
      throw new Failure(`cannot create '${name}': out of space`);
  } catch (error) {
    delete pools.state.things[name];
    throw error;
  }
  if (!set.has("u")) mountAndShare(pools, thing);
}

/** zfs snapshot [-r] (-o K=V)* NAME... : all of them or none. */
export function snapshot(pools: Pools, argv: readonly string[]): void {
  const { pairs, rest } = options(argv, "o");
  const { words } = flags(rest, "");
  for (const name of words) {
    const head = `cannot create snapshot '${name}'`;
    const from = name.split("@")[0] ?? "";
    if (!pools.find(from)) throw new UsageFailure(`cannot open '${from}': dataset does not exist`);
    if (words.filter(each => each.startsWith(`${from}@`)).length > 1)
      throw new Failure(
        "cannot create snapshots : multiple snapshots of same fs not allowed\nno snapshots were created",
      );
    if (!nameShape.test(name)) throw new Failure(`${head}: invalid character in name`);
    if (name.length > longest) throw new Failure(`${head}: name is too long`);
    if (pools.find(name)) throw new Failure(`${head}: dataset already exists\nno snapshots were created`);
  }
  for (const name of words) {
    const from = pools.find(name.split("@")[0] ?? "") as Thing;
    const made = pools.add(name, "snapshot");
    if (from.type === "volume") made.own["volsize"] = { value: from.own["volsize"]?.value ?? "0", source: "local" };
    for (const [key, value] of pairs) {
      if (!key.includes(":")) throw new Failure(`cannot create snapshot '${name}': invalid property '${key}'`);
      made.own[key] = { value, source: "local" };
    }
    pools.copyContent(from, made);
  }
}

/** zfs clone [-p] (-o K=V)* SNAPSHOT NAME */
export function clone(pools: Pools, argv: readonly string[]): void {
  const { pairs, rest } = options(argv, "o");
  const { words, set } = flags(rest, "");
  const [from = "", name = ""] = words;
  const origin = pools.find(from);
  if (!origin) throw new Failure(`cannot open '${from}': dataset does not exist`);
  if (set.has("p") && pools.find(name)) return;
  if (set.has("p")) withParents(pools, name);
  refuseNew(pools, name);
  const source = pools.find(from.split("@")[0] ?? "") as Thing;
  const thing = pools.add(name, source.type);
  thing.origin = origin.guid;
  for (const key of ["volsize", "volblocksize", "casesensitivity", "normalization", "utf8only"]) {
    const value = (key === "volsize" ? origin : source).own[key];
    if (value) thing.own[key] = value;
  }
  try {
    if (pairs.some(([key]) => natives[key]?.createOnly))
      throw new Failure(
        `cannot create '${name}': '${pairs.find(([key]) => natives[key]?.createOnly)?.[0]}' is readonly`,
      );
    apply(pools, thing, pairs, true);
  } catch (error) {
    delete pools.state.things[name];
    throw error;
  }
  pools.copyContent(origin, thing);
  mountAndShare(pools, thing);
}

/**
 * Sets values as far as possible: what cannot be set leaves the others (OpenZFS 2.1 to 2.3, module/zfs/zfs_ioctl.c, zfs_set_prop_nvlist).
 * Values that are wrong by themselves are refused before that, all of them (lib/libzfs/libzfs_dataset.c, zfs_valid_proplist).
 */
function settle(pools: Pools, thing: Thing, pairs: Pairs): void {
  for (const [name, value] of pairs) checked(thing, name, value, false, `cannot set property for '${thing.name}'`);
  // A reservation of the whole size follows the size that is set with it.
  const whole = pairs.some(([name, value]) => name === "refreservation" && value === "auto");
  const failed: Failure[] = [];
  for (const some of whole ? [pairs] : pairs.map(each => [each]))
    try {
      apply(pools, thing, some, false);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      failed.push(error);
    }
  if (failed.length > 0) throw new Failure(failed.map(({ message }) => message).join("\n"));
}

/** zfs set K=V... NAME... */
export function set(pools: Pools, argv: readonly string[]): void {
  const cut = argv.findIndex(word => !word.includes("="));
  const pairs = argv.slice(0, cut).map(pair);
  for (const name of argv.slice(cut)) {
    const thing = pools.find(name);
    if (!thing) throw new Failure(`cannot open '${name}': dataset does not exist`);
    if (thing.type === "snapshot" && pairs.some(([key]) => !key.includes(":")))
      throw new Failure(`cannot set property for '${name}': this property can not be modified for snapshots`);
    settle(pools, thing, pairs);
    if (!pairs.some(([key]) => key === "sharenfs" || key === "sharesmb") || !thing.mounted) continue;
    pools.usershare(thing, false);
    pools.share(thing);
  }
}

/** zfs inherit [-r] [-S] PROPERTY NAME... */
export function inherit(pools: Pools, argv: readonly string[]): void {
  const { words } = flags(argv, "");
  const [property = "", ...names] = words;
  for (const name of names) {
    const thing = pools.find(name);
    if (!thing) throw new Failure(`cannot open '${name}': dataset does not exist`);
    if (natives[property]?.inherited === false) throw new Failure(`'${property}' property cannot be inherited`);
    delete thing.own[property];
    if (property === "mountpoint") pools.mount(thing);
  }
}

/**
 * zfs rename [-f] [-u] [-p] FROM TO. It unmounts first, and changes nothing where that fails; afterwards it mounts and shares again what was
 * (OpenZFS 2.1 to 2.3, lib/libzfs/libzfs_dataset.c, zfs_rename; libzfs_changelist.c, changelist_prefix and changelist_postfix).
 */
export function rename(pools: Pools, argv: readonly string[]): void {
  const { words, set: given } = flags(argv, "");
  const [from = "", to = ""] = words;
  const thing = pools.find(from);
  if (!thing) throw new Failure(`cannot open '${from}': dataset does not exist`);
  if (given.has("p")) withParents(pools, to);
  refuseNew(pools, to, `cannot rename '${from}'`);
  const moved = [thing, ...pools.below(from)];
  const mounted = moved.filter(each => each.mounted);
  const shared = mounted.filter(each => each.shared);
  const again = () => {
    for (const each of mounted) pools.mount(each);
    for (const each of shared) pools.share(each);
  };
  try {
    for (const each of [...mounted].reverse()) pools.release(each, "unmount");
  } catch (error) {
    again();
    throw error;
  }
  for (const each of moved) {
    delete pools.state.things[each.name];
    each.name = to + each.name.slice(from.length);
    pools.state.things[each.name] = each;
  }
  again();
}

/** zfs promote NAME: its origin and the snapshots before it become its own. */
export function promote(pools: Pools, argv: readonly string[]): void {
  const thing = pools.find(argv[0] ?? "");
  const origin = pools.byGuid(thing?.origin);
  if (!thing || !origin) throw new Failure(`cannot promote '${argv[0]}': not a cloned filesystem`);
  const parent = pools.find(origin.name.split("@")[0] ?? "") as Thing;
  const older = pools.below(parent.name).filter(each => each.type === "snapshot" && each.txg <= origin.txg);
  for (const each of older) {
    delete pools.state.things[each.name];
    each.name = `${thing.name}@${each.name.split("@")[1]}`;
    pools.state.things[each.name] = each;
  }
  if (parent.origin) thing.origin = parent.origin;
  else delete thing.origin;
  parent.origin = origin.guid;
}
