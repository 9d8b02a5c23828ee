import { guidOf, writtenSince } from "./content.ts";
import { Failure, type Pools, type Thing } from "./pool.ts";
import { aliases, bytesOf, natives, shown } from "./properties.ts";

const absent = (name: string) => `cannot open '${name}': dataset does not exist`;

/** A property as `zfs get` shows it: value and source. */
function property(pools: Pools, thing: Thing, name: string): { readonly value: string; readonly source: string } {
  if (name.startsWith("written@"))
    return { value: thing.type === "snapshot" ? "-" : writtenSince(pools, thing, name.slice(8)), source: "-" };
  const computed = computedValue(pools, thing, name);
  if (computed !== undefined) return { value: computed, source: "-" };
  const native = natives[name];
  if (native && !native.types.includes(thing.type)) return { value: "-", source: "-" };
  const { value, source } = pools.value(thing, name);
  // zfs shows no source of what is decided at the creation (cmd/zfs/zfs_main.c, get_callback; zfs_prop_readonly).
  return { value: value === "" ? "-" : value, source: native?.createOnly ? "-" : source };
}

function computedValue(pools: Pools, thing: Thing, name: string): string | undefined {
  const origin = pools.byGuid(thing.origin);
  const values: Readonly<Record<string, () => string>> = {
    name: () => thing.name,
    type: () => thing.type,
    guid: () => guidOf(thing),
    creation: () => String(thing.creation),
    createtxg: () => String(thing.txg),
    used: () => String(pools.bytes(thing)),
    referenced: () => String(pools.bytes(thing)),
    logicalreferenced: () => String(pools.bytes(thing)),
    available: () => (thing.type === "snapshot" ? "-" : String(left(pools, thing))),
    keystatus: () =>
      thing.locked ? "unavailable" : pools.value(thing, "encryption").value === "off" ? "-" : "available",
    origin: () => (thing.type === "snapshot" ? "-" : (origin?.name ?? "-")),
    mounted: () => (thing.type === "filesystem" ? (thing.mounted ? "yes" : "no") : "-"),
    clones: () =>
      thing.type === "snapshot"
        ? pools
            .clonesOf(thing)
            .map(each => each.name)
            .join(",") || "-"
        : "-",
    defer_destroy: () => (thing.type === "snapshot" ? (thing.defer ? "on" : "off") : "-"),
    userrefs: () => (thing.type === "snapshot" ? String(thing.holds?.length ?? 0) : "-"),
    receive_resume_token: () => thing.token ?? "-",
  };
  return values[name]?.();
}

/** What new data may take in a dataset: no more than its quota leaves. */
function left(pools: Pools, thing: Thing): number {
  const quota = thing.type === "filesystem" ? bytesOf(thing.own["refquota"]?.value ?? "0") : 0;
  const all = free(pools, thing.name);
  return quota > 0 ? Math.max(0, Math.min(all, quota - pools.bytes(thing))) : all;
}

/** What new data may take in a pool. */
export function free(pools: Pools, name: string): number {
  const pool = name.split(/[/@]/)[0] ?? "";
  const total = pools.state.pools[pool]?.bytes ?? 0;
  const used = pools
    .all()
    .filter(each => each.name.split(/[/@]/)[0] === pool)
    .reduce((sum, each) => sum + Math.max(pools.bytes(each), bytesOf(each.own["refreservation"]?.value ?? "0")), 0);
  return Math.max(0, total - used);
}

interface Flags {
  readonly words: readonly string[];
  readonly set: ReadonlySet<string>;
  readonly values: Readonly<Record<string, string>>;
}

/** Flags of one letter, joined or not; those in `valued` take a word. */
export function flags(argv: readonly string[], valued: string): Flags {
  const set = new Set<string>();
  const values: Record<string, string> = {};
  const rest = [...argv];
  while (rest[0]?.startsWith("-") && rest[0].length > 1) {
    const letters = (rest.shift() ?? "").slice(1);
    for (const [index, letter] of [...letters].entries()) {
      if (!valued.includes(letter)) set.add(letter);
      else {
        values[letter] = letters.slice(index + 1) || (rest.shift() ?? "");
        break;
      }
    }
  }
  return { words: rest, set, values };
}

const kinds = (text: string | undefined, fallback: string): readonly string[] =>
  (text ?? fallback).split(",").flatMap(kind => {
    const long = { all: "filesystem,volume,snapshot", snap: "snapshot", fs: "filesystem", vol: "volume" }[kind] ?? kind;
    return long.split(",");
  });

/** Things named, or below them down to `depth`, each once; names that do not exist are passed to `missing`. */
function chosen(pools: Pools, names: readonly string[], depth: number, missing: (text: string) => void): Thing[] {
  const all = names.flatMap(name => {
    const thing = pools.find(name);
    if (!thing) {
      missing(absent(name));
      return [];
    }
    const level = (each: Thing): number => each.name.slice(name.length).split(/[/@]/).length - 1;
    return [thing, ...pools.below(name).filter(each => level(each) <= depth)];
  });
  return [...new Map(all.map(each => [each.name, each])).values()].sort(inOrder);
}

/**
 * The order in which zfs shows things: of names, but snapshots after their dataset in the order in which they were taken
 * (OpenZFS 2.1 to 2.3, cmd/zfs/zfs_iter.c, zfs_compare).
 */
function inOrder(a: Thing, b: Thing): number {
  const [left = "", right = ""] = [a.name.split("@")[0], b.name.split("@")[0]];
  if (left !== right) return left < right ? -1 : 1;
  return a.type === "snapshot" && b.type === "snapshot" ? a.txg - b.txg : a.name.length - b.name.length;
}

export interface Printed {
  readonly out: string;
  readonly err: string;
}

/** zfs get -Hp -o name,property,value,source [-r | -d N] [-t TYPES] [-s SOURCES] PROPERTIES NAME... */
export function get(pools: Pools, argv: readonly string[]): Printed {
  const { words, set, values } = flags(argv, "odts");
  const [properties = "", ...names] = words;
  const errors: string[] = [];
  const depth = values["d"] !== undefined ? Number(values["d"]) : set.has("r") ? 99 : 0;
  const types = kinds(values["t"], "all");
  const things = chosen(pools, names, depth, text => errors.push(text)).filter(each => types.includes(each.type));
  const columns = (values["o"] ?? "name,property,value,source").split(",");
  const lines = things.flatMap(thing => {
    const wanted = properties === "all" ? [...Object.keys(natives), ...Object.keys(thing.own)] : properties.split(",");
    return wanted.flatMap(name => {
      const full = aliases[name] ?? name;
      if (!natives[full] && !full.includes(":") && full !== "name" && !full.startsWith("written@"))
        throw new Failure(`bad property list: invalid property '${name}'`);
      const { value, source } = property(pools, thing, full);
      const from = source.split(" ")[0] ?? "-";
      if (values["s"] && !values["s"].split(",").includes(from === "-" ? "none" : from)) return [];
      const cells: Readonly<Record<string, string>> = {
        name: thing.name,
        property: name,
        value: set.has("p") ? value : shown(full, value),
        source,
        received: "-",
      };
      return [columns.map(column => cells[column] ?? "-").join("\t")];
    });
  });
  return { out: lines.map(line => `${line}\n`).join(""), err: errors.map(line => `${line}\n`).join("") };
}

/** zfs list -Hp [-r | -d N] [-t TYPES] [-s COLUMN | -S COLUMN] -o COLUMNS [NAME...]; `-S name`: whole names backwards (zfs_sort) */
export function list(pools: Pools, argv: readonly string[]): Printed {
  const { words, set, values } = flags(argv, "odtsS");
  const errors: string[] = [];
  const types = kinds(values["t"], "filesystem,volume");
  const ofSnapshots = types.length === 1 && types[0] === "snapshot";
  const depth =
    values["d"] !== undefined ? Number(values["d"]) : set.has("r") || words.length === 0 ? 99 : ofSnapshots ? 1 : 0;
  const names =
    words.length > 0
      ? words
      : pools
          .all()
          .filter(each => !/[/@]/.test(each.name))
          .map(each => each.name);
  const found = chosen(pools, names, depth, text => errors.push(text)).filter(each => types.includes(each.type));
  const things = values["S"] === "name" ? found.sort((a, b) => (a.name < b.name ? 1 : -1)) : found;
  const columns = (values["o"] ?? "name,used,available,referenced,mountpoint")
    .split(",")
    .map(name => aliases[name] ?? name);
  const bad = columns.find(name => !natives[name] && !name.includes(":") && name !== "name");
  if (bad) throw new Failure(`bad property list: invalid property '${bad}'`);
  const lines = things.map(thing =>
    columns
      .map(name => {
        const { value } = property(pools, thing, name);
        return set.has("p") ? value : shown(name, value);
      })
      .join("\t"),
  );
  return { out: lines.map(line => `${line}\n`).join(""), err: errors.map(line => `${line}\n`).join("") };
}

/** zfs holds -H SNAPSHOT...: name, tag and time of each hold (OpenZFS 2.1 to 2.3, cmd/zfs/zfs_main.c, print_holds). */
export function holds(pools: Pools, argv: readonly string[]): Printed {
  const { words } = flags(argv, "");
  const found = words.map(name => [name, pools.find(name)] as const);
  const lines = found.flatMap(([name, thing]) =>
    (thing?.holds ?? []).map(tag => `${name}\t${tag}\tMon Nov 23  7:00 2026\n`),
  );
  const errors = found.flatMap(([name, thing]) => (thing ? [] : [`${absent(name)}\n`]));
  return { out: lines.join(""), err: errors.join("") };
}
