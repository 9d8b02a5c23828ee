import { pause } from "../../../core/time.ts";
import { quoted, type Step, type StorageHost } from "../../../io/script.ts";
import { behind } from "./steps.ts";

// What the NFS server of a Linux host exports, and who uses it.

/** The folders in the server's export cache (net/sunrpc/cache.c). */
const table = "/proc/net/rpc/nfsd.export/content";
/** A folder for each NFSv4 client, with its "states" and "info" (Linux 5.3, fs/nfsd/nfs4state.c). */
const clientsFolder = "/proc/fs/nfsd/clients";
/** The number of clients that a message names. */
const named = 3;

/**
 * Prints the line of the export cache for the folder ARGV[1], and of each file behind it the first with an open file on its device. That is
 * in the table of mounts as two decimal numbers, and of open files as two hexadecimal ones (nfs4_show_superblock). The kernel
 * writes certain characters of a path as their number in octal (fs/seq_file.c, seq_path). A file that cannot be read does not count, because
 * one of a client's files cannot be.
 */
const usersProgram = `function first(file, part,    line) {
  while ((getline line < file) > 0) if (index("\\n" line, part)) { print file ":" line; break }
  close(file)
}
BEGIN {
  place = ARGV[1]
  gsub(/\\\\/, "\\\\134", place); gsub(/ /, "\\\\040", place); gsub(/\\t/, "\\\\011", place); gsub(/\\n/, "\\\\012", place)
  mounts = "/proc/self/mountinfo"
  while ((getline line < mounts) > 0) {
    if (index(line, " " place " ") == 0) continue
    split(line, word, " ")
    if (word[5] == place) device = word[3]
  }
  first("${table}", "\\n" place "\\t")
  if (device == "" || split(device, number, ":") != 2) exit
  shown = sprintf("superblock: \\"%02x:%02x:", number[1], number[2])
  for (i = 2; i < ARGC; i++) first(ARGV[i], shown)
}`;

/**
 * Sets found to the users of the file system that is mounted at $place; "$@" precedes a privileged program. Only root may see the folders
 * of clients, so its shell finds them, which then becomes awk(1): one process.
 */
export const usersText = `found=$("$@" sh -c ${quoted(`exec awk "$@" ${clientsFolder}/*/states`)} sh ${quoted(usersProgram)} "$place")`;

/** Reads what the server shows about clients, by their folders. */
export function infoStep(clients: readonly string[], privileged: readonly string[]): Step {
  const files = clients.slice(0, named).map(client => `${client}/info`);
  const pattern = "^(address|name|status|seconds)";
  const argv = behind(privileged, "grep", "-sE", pattern, "--", ...files, "/dev/null");
  return { name: "info", argv, onFailure: "go-on" };
}

/** The folders of the NFSv4 clients that hold files open, from what `usersText` finds: a file, a colon and a line of it. */
export const clientsIn = (text: string): readonly string[] => [
  ...new Set(text.split("\n").flatMap(line => /^(\/proc\/fs\/nfsd\/clients\/\d+)\/states:/.exec(line)?.[1] ?? [])),
];

/** The message for a file system in use. `info`: the output of the step "info". */
export function clientsText(mountpoint: string, clients: readonly string[], info: string): string {
  const all = clients.slice(0, named).map(client => described(client, fieldsOf(client, info)));
  const more = clients.length > named ? ` and ${clients.length - named} more` : "";
  return `NFS clients hold files in ${mountpoint} open: ${all.join("; ")}${more}`;
}

const fieldsOf = (client: string, info: string): ReadonlyMap<string, string> =>
  new Map(
    info
      .split("\n")
      .filter(line => line.startsWith(`${client}/info:`))
      .map(line => line.slice(client.length + 6).split(/: (.*)/, 2))
      .map(([key = "", value = ""]) => [key, value.slice(0, 100)]),
  );

/** A client that is silent keeps its files open as "courtesy" for a day, or until another one needs them (Linux 5.19). */
function described(client: string, info: ReadonlyMap<string, string>): string {
  const who = `${info.get("name") ?? client} at ${info.get("address") ?? "an unknown address"}`;
  if (info.get("status") !== "courtesy") return who;
  const seconds = info.get("seconds from last renew") ?? "some";
  return `${who}, silent for ${seconds} s (if it is gone for good: echo expire > ${client}/ctl)`;
}

/** The time of the last flush of the export cache, in seconds since 1970 (net/sunrpc/cache.c, read_flush). */
const flushTime = "/proc/net/rpc/nfsd.export/flush";

/** Lists the exports (exportfs(8), /var/lib/nfs/etab). */
export const exportsStep: Step = {
  name: "exports",
  argv: ["cat", "/var/lib/nfs/etab"],
  reads: true,
  maxBytes: 64 << 20,
};

/** What a server exports to some clients. */
export interface NfsExport {
  readonly folder: string;
  /** As exports(5) writes them; in this list none is left out. */
  readonly options: readonly string[];
  /** The clients, with the options in brackets. */
  readonly clients: string;
}

/** The entries of that list. A blank in a folder is its number in octal (exports(5)). */
export const exportsIn = (text: string): readonly NfsExport[] =>
  text
    .split("\n")
    .filter(line => line.startsWith("/"))
    .map(line => {
      const [folder = "", clients = ""] = line.split("\t");
      return {
        folder: folder.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8))),
        options: (/\((.*)\)$/.exec(clients)?.[1] ?? "").split(","),
        clients,
      };
    });

/** The folders in it. */
export const exportedIn = (text: string): ReadonlySet<string> => new Set(exportsIn(text).map(({ folder }) => folder));

/** The longest delay of a flush, and its delay where the time of the last one is unknown, in milliseconds. */
const latestMs = 10_000;
const unknownMs = 2_100;

/** The time limit of a round in milliseconds. */
const roundMs = 60_000;

/** How one connection reaches the NFS server. */
interface ReachedServer {
  readonly host: StorageHost;
  /** Precedes programs that only root may run. */
  readonly privileged: readonly string[];
}

/** The export cache of a server, as one connection flushes it. */
export interface FlushedExports {
  /** Resolves after a flush; only active clients fill the cache again. An aborted signal ends this wait, not the flush. */
  flushed(signal: AbortSignal): Promise<void>;
}

/**
 * The export cache of a host's NFS server. Each change of exports flushes it, and its clock counts whole seconds: more than one
 * flush a second moves the time of the flush ahead of the clock, and until then nothing leaves the cache (sunrpc, cache_flush). So all
 * who need a flush wait together until that time has passed, and then flush once.
 */
export class ExportCache {
  #round: Promise<void> | undefined;

  /** For one connection. It outlives those that use it, whose logins end with them, so each round is made with that of the caller that begins it. */
  of(host: StorageHost, privileged: readonly string[]): FlushedExports {
    return { flushed: signal => this.#flushed({ host, privileged }, signal) };
  }

  async #flushed(server: ReachedServer, signal: AbortSignal): Promise<void> {
    this.#round ??= this.#flush(server, AbortSignal.timeout(roundMs)).finally(() => {
      this.#round = undefined;
    });
    const over = new AbortController();
    const left = pause(roundMs, AbortSignal.any([signal, over.signal]));
    left.catch(() => {});
    await Promise.race([this.#round, left]).finally(() => over.abort());
  }

  async #flush(server: ReachedServer, signal: AbortSignal): Promise<void> {
    const latest = performance.now() + latestMs;
    for (let known = await this.#ahead(server, signal); ; known = await this.#ahead(server, signal)) {
      const left = Math.min(known ?? unknownMs, latest - performance.now());
      if (left > 0) await pause(left, signal);
      if (left <= 0 || known === undefined) break;
    }
    const argv = behind(server.privileged, "exportfs", "-f");
    await server.host.script({ steps: [{ name: "flush", argv, onFailure: "go-on" }] }, signal);
  }

  /** For how many milliseconds a flush has no effect yet; undefined where that is unknown. */
  async #ahead({ host, privileged }: ReachedServer, signal: AbortSignal): Promise<number | undefined> {
    const last: Step = { name: "last", argv: behind(privileged, "cat", flushTime), onFailure: "go-on" };
    const clock: Step = { name: "clock", argv: ["date", "+%s"], onFailure: "go-on" };
    const outputs = await host.script({ steps: [last, clock] }, signal);
    const [at, now] = [last, clock].map(({ name }) => outputs.get(name)?.stdout.trim() ?? "");
    if (!/^\d+$/.test(at ?? "") || !/^\d+$/.test(now ?? "")) return undefined;
    return (Number(at) - Number(now) + 1) * 1000;
  }
}
