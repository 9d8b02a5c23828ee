import { pause } from "../../../core/time.ts";
import type { Argv, Output } from "../../../io/runner.ts";
import { quoted, type Step, type StorageHost } from "../../../io/script.ts";
import type { StreamEnd } from "../../copying.ts";
import { datasetOf, snapshotNameOf } from "../names.ts";
import type { Held, StreamBase, Taken, ZfsStreams } from "../streams.ts";
import { type PropertyQuery, ZfsError } from "../zfs.ts";
import { outputOf, readEntries, refusal } from "./answers.ts";
import { options, type Programs, readStep } from "./steps.ts";

/**
 * The flags of every stream, which must not change between two streams of one copy (openzfs issue 6224): large blocks as they are, because
 * newer pools may hold what cannot be sent without, and compressed. Properties, holds, other snapshots and keys never travel.
 */
const flags = ["-L", "-c"] as const;

/** Each second a line on stderr with the bytes so far (zfs-send(8)). */
const telling = (tells: boolean): readonly string[] => (tells ? ["-v", "-P"] : []);

/** How long a receiving program may take to end after the signal, and the pauses between looks, in milliseconds. */
const stopMs = 15_000;
const stopPauseMs = 200;

/**
 * Prints the ids of the programs `zfs receive` whose last word is a snapshot of $1 that csimux names; with "stop" as $2 it ends them, with the
 * words behind it before kill(1) where that is refused. Options of ps(1): POSIX.1-2017; -ww: whole lines (procps, FreeBSD).
 */
const receiversText = `target=$1 mode=$2; shift 2
all=$(ps -A -ww -o pid= -o args=) || exit
printf '%s\\n' "$all" | while read -r pid args; do
  program=\${args%% *}
  case \${program##*/} in zfs) ;; *) continue;; esac
  case $args in "$program receive "*" $target@csimux-copy-"*) ;; *) continue;; esac
  echo "$pid"
  [ "$mode" = list ] || kill "$pid" 2>/dev/null || "$@" kill "$pid" 2>/dev/null
done; :`;

/**
 * Starts the program of the words behind $3 if the property $2 that is set on the dataset $1 has the value $3, as zfs get, the words behind
 * "--", prints it: what follows overwrites what is newer than the last common snapshot.
 */
const guarded = (show: Argv, dataset: string, property: string, value: string, argv: Argv): Argv => {
  const shown = [...show, "get", "-H", "-o", "value", "-s", "local", property, dataset].map(quoted).join(" ");
  const text = `copy=$(${shown}) || exit
[ "$copy" = ${quoted(value)} ] || { echo ${quoted(`${dataset} is not the target of ${value}`)} >&2; exit 1; }
exec ${argv.map(quoted).join(" ")}`;
  return ["sh", "-c", text];
};

/** Streams through zfs(8) on a host. `machine`: equal for connections that reach the same machine in the same way. */
export function streamsCli(host: StorageHost, programs: Programs, machine: string): ZfsStreams {
  const zfs = (...words: readonly string[]): Argv => [...programs.zfs, ...words];

  const step = (name: string, argv: Argv, more: Partial<Step> = {}): Step => ({
    name,
    argv,
    onFailure: "go-on",
    ...more,
  });

  const run = async (signal: AbortSignal, ...[first, ...rest]: readonly [Step, ...Step[]]) =>
    host.script({ steps: [first, ...rest] }, signal);

  async function done(
    name: string,
    argv: Argv,
    isDone: (output: Output) => boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const output = outputOf(await run(signal, step(name, argv)), name);
    if (output.exitCode !== 0 && !isDone(output)) throw refusal(output);
  }

  const baseWords = (base: StreamBase | undefined): readonly string[] =>
    base === undefined ? [] : ["-i", `@${snapshotNameOf(base)}`];

  const estimateStep = (snapshot: string, base: StreamBase | undefined): Step =>
    step("estimate", zfs("send", "-n", "-P", ...flags, ...baseWords(base), snapshot), { reads: true });

  const heldStep = (snapshot: string, tag: string): Step => step("hold", zfs("hold", tag, snapshot));

  const isHeld = ({ stderr }: Output): boolean => /tag already exists/.test(stderr);

  async function held(
    steps: readonly Step[],
    snapshot: string,
    query: PropertyQuery,
    base: StreamBase | undefined,
    signal: AbortSignal,
  ) {
    const read = readStep(programs, query);
    const [first = read, ...rest] = steps;
    const later = steps.length > 0 ? [read] : [];
    return run(signal, first, ...rest, ...later, estimateStep(snapshot, base));
  }

  async function receivers(dataset: string, mode: "list" | "stop", signal: AbortSignal): Promise<boolean> {
    const argv: Argv = ["sh", "-c", receiversText, "sh", dataset, mode, ...programs.privileged];
    const output = outputOf(
      await run(signal, step("receivers", argv, mode === "list" ? { reads: true } : {})),
      "receivers",
    );
    if (output.exitCode !== 0) throw refusal(output);
    return output.stdout.trim() !== "";
  }

  return {
    machine,
    send: (snapshot, base, basic, tells): StreamEnd => ({
      host,
      argv: zfs("send", ...telling(tells), ...(basic ? [] : flags), ...baseWords(base), snapshot),
    }),
    resume: (token, tells) => ({ host, argv: zfs("send", ...telling(tells), "-t", token) }),
    receive: (snapshot, values) => ({ host, argv: zfs("receive", "-u", "-s", ...options(values), snapshot) }),
    receiveLater(snapshot, property, value) {
      const dataset = datasetOf(snapshot);
      const argv = zfs("receive", "-u", "-s", "-F", snapshot);
      return { host, argv: guarded(programs.zfs, dataset, property, value, argv) };
    },
    async take(snapshot, values, tag, query, base, signal): Promise<Taken> {
      const make = step("make", zfs("snapshot", ...options(values), snapshot));
      const hold = { ...heldStep(snapshot, tag), onlyAfter: make.name };
      const outputs = await held([make, hold], snapshot, query, base, signal);
      const [made, kept] = [outputOf(outputs, make.name), outputs.get(hold.name)];
      const refused = made.exitCode === 0 ? undefined : refusal(made);
      if (refused && refused.failure !== "exists") throw refused;
      if (kept && kept.exitCode !== 0 && !isHeld(kept)) throw refusal(kept);
      return {
        made: refused === undefined,
        entries: readEntries(outputs, query),
        toSend: sizeIn(outputOf(outputs, "estimate")),
      };
    },
    async hold(snapshot, values, tag, query, base, signal): Promise<Held> {
      const pairs = Object.entries(values).map(([name, value]) => `${name}=${value}`);
      const set = pairs.length === 0 ? [] : [{ name: "set", argv: zfs("set", ...pairs, snapshot) }];
      const outputs = await held([...set, heldStep(snapshot, tag)], snapshot, query, base, signal);
      const [noted, kept] = [outputs.get("set"), outputs.get("hold")];
      if (noted && noted.exitCode !== 0) throw refusal(noted);
      if (!kept || (kept.exitCode !== 0 && !isHeld(kept))) throw refusal(kept ?? outputOf(outputs, "hold"));
      return { entries: readEntries(outputs, query), toSend: sizeIn(outputOf(outputs, "estimate")) };
    },
    // OpenZFS 2.1 to 2.3, lib/libzfs/libzfs_util.c, zfs_error_text: EZFS_REFTAG_RELE.
    release: (snapshot, tag, signal) =>
      done(
        "release",
        zfs("release", tag, snapshot),
        ({ stderr }) => /no such tag on this dataset|does not exist/.test(stderr),
        signal,
      ),
    async tags(snapshots, signal) {
      if (snapshots.length === 0) return [];
      const output = outputOf(
        await run(signal, step("holds", zfs("holds", "-H", ...snapshots), { reads: true })),
        "holds",
      );
      if (output.exitCode !== 0 && !/does not exist/.test(output.stderr)) throw refusal(output);
      return output.stdout.split("\n").flatMap(line => {
        const [snapshot = "", tag] = line.split("\t");
        return tag === undefined ? [] : [{ snapshot, tag }];
      });
    },
    async version(signal) {
      const { stdout } = outputOf(await run(signal, step("version", zfs("version"), { reads: true })), "version");
      return /^zfs-kmod-(\S+)/m.exec(stdout)?.[1];
    },
    isReceiving: (dataset, signal) => receivers(dataset, "list", signal),
    async stop(dataset, signal) {
      const end = performance.now() + stopMs;
      while (await receivers(dataset, "stop", signal)) {
        if (performance.now() > end) throw new ZfsError("busy", `the zfs receive into ${dataset} does not end`);
        await pause(stopPauseMs, signal);
      }
    },
    // OpenZFS 2.1 to 2.3, cmd/zfs/zfs_main.c, zfs_do_receive.
    abort: (dataset, signal) =>
      done(
        "abort",
        zfs("receive", "-A", dataset),
        // What is gone, with or without its dataset, needs no end.
        ({ stderr }) => /does not have any\s+resumable receive state|dataset does not exist/.test(stderr),
        signal,
      ),
    /** The token is decoded before the snapshot is looked for, which is on another machine (libzfs_sendrecv.c, zfs_send_resume_impl_cb_impl). */
    async guidOf(token, signal) {
      const argv = zfs("send", "-n", "-v", "-P", "-t", token);
      const { stdout, stderr } = outputOf(await run(signal, step("token", argv, { reads: true })), "token");
      const text = /^\s*toguid = 0x([0-9a-f]{1,16})\s*$/m.exec(stdout + stderr)?.[1];
      return text === undefined ? "" : String(BigInt(`0x${text}`));
    },
  };
}

/** The estimate in the answer of `zfs send -nP`; 0 if there is none (libzfs_sendrecv.c, estimate_size). */
function sizeIn({ stdout, exitCode }: Output): bigint {
  const text = /^size\t(\d{1,20})\n/m.exec(stdout)?.[1];
  return exitCode === 0 && text !== undefined ? BigInt(text) : 0n;
}
