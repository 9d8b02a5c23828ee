import { mkdirSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { errnoOf } from "../../../lib/core/errors.ts";
import { clone, create, inherit, promote, rename, set, snapshot } from "./change.ts";
import { destroy } from "./destroy.ts";
import { hold } from "./holds.ts";
import { mount, share } from "./mounts.ts";
import { Failure, Pools, UsageFailure } from "./pool.ts";
import { get, holds, list, type Printed } from "./show.ts";
import { receive, send } from "./stream.ts";

/** What a command of the model ends with. */
export interface Result extends Printed {
  readonly code: number;
  /** Written after `out` and a pause of `ms` milliseconds. */
  readonly later?: { readonly text: string; readonly ms: number };
  /** Written on stderr after `out`. */
  readonly told?: string;
}

const changes: Readonly<Record<string, (pools: Pools, argv: readonly string[]) => void>> = {
  create,
  snapshot,
  clone,
  set,
  inherit,
  rename,
  promote,
  destroy,
  mount: (pools, argv) => mount(pools, argv, true),
  unmount: (pools, argv) => mount(pools, argv, false),
  hold: (pools, argv) => hold(pools, argv, true),
  release: (pools, argv) => hold(pools, argv, false),
  share,
};

function answer(pools: Pools, program: string, argv: readonly string[], stdin: string): Omit<Result, "code"> {
  const [verb = "", ...rest] = argv;
  if (program === "zpool") return { out: zpool(pools, verb, rest), err: "" };
  if (verb === "get") return get(pools, rest);
  if (verb === "list") return list(pools, rest);
  if (verb === "holds") return holds(pools, rest);
  if (verb === "version") return { out: `zfs-2.2.9-1\nzfs-kmod-${pools.state.faults.version ?? "2.2.9-1"}\n`, err: "" };
  if (verb === "send") {
    const { parts, err, told = "" } = send(pools, rest);
    return { out: parts[0], err, told, later: { text: parts[1], ms: pools.state.faults.sendMs ?? 0 } };
  }
  if (verb === "receive") {
    const cut = pools.state.faults.cutReceive;
    const stream = cut === undefined ? stdin : stdin.slice(0, cut);
    receive(pools, rest, stream, (name, pairs) => set(pools, [...pairs, name]));
    return { out: "", err: "" };
  }
  const change = changes[verb];
  if (!change) throw new Failure(`unrecognized command '${verb}'`);
  change(pools, rest);
  return { out: "", err: "" };
}

function zpool(pools: Pools, verb: string, rest: readonly string[]): string {
  const [name = ""] = rest.filter(word => !word.startsWith("-"));
  const pool = pools.state.pools[name];
  if (verb === "list" && rest.includes("name,health"))
    return rest
      .filter(each => pools.state.pools[each]?.imported)
      .map(
        each =>
          `${each}\t${pools.state.pools[each]?.health ?? (pools.state.pools[each]?.suspended ? "SUSPENDED" : "ONLINE")}\n`,
      )
      .join("");
  if (verb === "list")
    return Object.keys(pools.state.pools)
      .filter(each => pools.state.pools[each]?.imported)
      .map(each => `${each}\n`)
      .join("");
  if (!pool) throw new Failure(`cannot open '${name}': no such pool`);
  pool.imported = verb === "import";
  return "";
}

/** Runs one command on the pools in a folder, alone: other processes wait. */
export function run(folder: string, program: string, argv: readonly string[], stdin: string): Result {
  const unlock = locked(folder);
  const pools = new Pools(folder);
  pools.state.log.push([program, ...argv].join(" "));
  try {
    const name = argv.at(-1) ?? "";
    const suspended = program === "zfs" && pools.state.pools[name.split(/[/@]/)[0] ?? ""]?.suspended;
    if (suspended) throw new Failure(`cannot open '${name}': pool I/O is currently suspended`);
    const done = answer(pools, program, argv, stdin);
    return { ...done, code: done.err === "" ? 0 : 1 };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return { out: "", err: `${error.message}\n`, code: error instanceof UsageFailure ? 2 : 1 };
  } finally {
    pools.save();
    unlock();
  }
}

/** A folder that only one process can make at a time. */
export function locked(folder: string): () => void {
  const lock = join(folder, "lock");
  const end = Date.now() + 60_000;
  for (;;) {
    try {
      mkdirSync(lock);
      return () => rmdirSync(lock);
    } catch (error) {
      // A folder that is gone, because its test has ended, will not come back.
      if (errnoOf(error) !== "EEXIST" || Date.now() > end) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2);
    }
  }
}
