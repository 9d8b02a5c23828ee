import { pause } from "../../../core/time.ts";
import type { Step, StorageHost } from "../../../io/script.ts";

/** Who uses a file system that a Linux host exports: what its NFS server shows. */

/** The folders that the server holds on to (net/sunrpc/cache.c). */
const table = "/proc/net/rpc/nfsd.export/content";
/** A folder for each NFSv4 client, with its "states" and "info" (Linux 5.3, fs/nfsd/nfs4state.c). */
const clientsFolder = "/proc/fs/nfsd/clients";
/** How many clients a message names. */
const named = 3;

/**
 * $1 is where it is mounted, the rest what comes before a privileged program. Open files are told by the number of their device,
 * two hexadecimal numbers (nfs4_show_superblock), which stat(1) of Linux has as one (new_encode_dev). The code of grep does not count:
 * among the files of a client is one that cannot be read.
 */
const usersText = `place=$1; shift
device=$(stat -c %d -- "$place" 2>/dev/null) &&
  device=$(printf '%02x:%02x:' $((device >> 8 & 4095)) $((device & 255 | device >> 12 & 1048320))) || device=none
found=$("$@" grep -rsF -m 1 -e "$place	" -e "superblock: \\"$device" -- ${table} ${clientsFolder})
[ -n "$found" ] && printf '%s\\n' "$found"`;

/** Looks for who uses an exported file system: ends with code 0 when there is somebody, or when the server holds on to it. */
export const usersStep = (mountpoint: string, privileged: readonly string[]): Step => ({
  name: "users",
  argv: ["sh", "-c", usersText, "sh", mountpoint, ...privileged],
  onFailure: "go-on",
});

/** What is known of clients by their folders. */
export function infoStep(clients: readonly string[], privileged: readonly string[]): Step {
  const files = clients.slice(0, named).map(client => `${client}/info`);
  const [program = "grep", ...words] = [...privileged, "grep", "-sE", "^(address|name|status|seconds)", "--", ...files];
  return { name: "info", argv: [program, ...words, "/dev/null"], onFailure: "go-on" };
}

/** The folders of the NFSv4 clients that hold files of it open, from what the step "users" printed: a file, a colon and a line of it. */
export const clientsIn = (text: string): readonly string[] => [
  ...new Set(text.split("\n").flatMap(line => /^(\/proc\/fs\/nfsd\/clients\/\d+)\/states:/.exec(line)?.[1] ?? [])),
];

/** The message for what is in use. `info`: what the step "info" printed. */
export function inUse(mountpoint: string, clients: readonly string[], info: string): string {
  const all = clients.slice(0, named).map(client => described(client, linesOf(client, info)));
  const more = clients.length > named ? ` and ${clients.length - named} more` : "";
  return `NFS clients hold files in ${mountpoint} open: ${all.join("; ")}${more}`;
}

const linesOf = (client: string, info: string): ReadonlyMap<string, string> =>
  new Map(
    info
      .split("\n")
      .filter(line => line.startsWith(`${client}/info:`))
      .map(line => line.slice(client.length + 6).split(/: (.*)/, 2))
      .map(([key = "", value = ""]) => [key, value.slice(0, 100)]),
  );

/** One that the server has not heard of keeps its files open as "courtesy" until it is needed or a day is over (Linux 5.19). */
function described(client: string, info: ReadonlyMap<string, string>): string {
  const who = `${info.get("name") ?? client} at ${info.get("address") ?? "an unknown address"}`;
  if (info.get("status") !== "courtesy") return who;
  const seconds = info.get("seconds from last renew") ?? "some";
  return `${who}, not heard of for ${seconds} s (when it is gone for good: echo expire > ${client}/ctl)`;
}

/** The moment of the last flush of the server's export cache, in seconds since 1970 (net/sunrpc/cache.c, read_flush). */
const flushTime = "/proc/net/rpc/nfsd.export/flush";

/** Reads what the NFS server of Linux exports (exportfs(8), /var/lib/nfs/etab). */
export const exportsStep: Step = {
  name: "exports",
  argv: ["cat", "/var/lib/nfs/etab"],
  reads: true,
  maxBytes: 64 << 20,
};

/** The folders in that list: a blank is written as its number in octal (exports(5)). */
export const exportedIn = (text: string): ReadonlySet<string> =>
  new Set(
    text
      .split("\n")
      .flatMap(line => (line.startsWith("/") ? [line.split("\t")[0] ?? ""] : []))
      .map(place =>
        place.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8))),
      ),
  );

/** How long a flush is put off at most, in milliseconds. */
const latestMs = 10_000;

/** How long it is put off where the moment of the last one cannot be read, in milliseconds. */
const unknownMs = 2_100;

/** How long a round takes at most, in milliseconds; scripts that hang end by themselves. */
const roundMs = 60_000;

/**
 * The export cache of a host's NFS server. Each change of its exports flushes the cache, and its clock counts whole seconds; more
 * than one flush a second moves the moment of the flush ahead of the clock, and until that moment nothing leaves the cache
 * (sunrpc, cache_flush). So those who want it empty wait together until that moment is over, and then flush once.
 */
export class ExportCache {
  readonly #host: StorageHost;
  readonly #privileged: readonly string[];
  #round: Promise<void> | undefined;

  constructor(host: StorageHost, privileged: readonly string[]) {
    this.#host = host;
    this.#privileged = privileged;
  }

  /**
   * Resolves after a flush. Clients that are at work fill the cache again at once; nothing else does. Rejects with the reason of the
   * signal when that comes first; the others go on waiting.
   */
  async flushed(signal: AbortSignal): Promise<void> {
    this.#round ??= this.#flush(AbortSignal.timeout(roundMs)).finally(() => {
      this.#round = undefined;
    });
    const over = new AbortController();
    const left = pause(roundMs, AbortSignal.any([signal, over.signal]));
    left.catch(() => {});
    await Promise.race([this.#round, left]).finally(() => over.abort());
  }

  async #flush(signal: AbortSignal): Promise<void> {
    const latest = performance.now() + latestMs;
    for (let known = await this.#ahead(signal); ; known = await this.#ahead(signal)) {
      const left = Math.min(known ?? unknownMs, latest - performance.now());
      if (left > 0) await pause(left, signal);
      if (left <= 0 || known === undefined) break;
    }
    const [program = "exportfs", ...words] = [...this.#privileged, "exportfs", "-f"];
    await this.#host.script({ steps: [{ name: "flush", argv: [program, ...words], onFailure: "go-on" }] }, signal);
  }

  /** For how many milliseconds a flush would have no effect yet; undefined where that cannot be told. */
  async #ahead(signal: AbortSignal): Promise<number | undefined> {
    const [program = "cat", ...words] = [...this.#privileged, "cat", flushTime];
    const last: Step = { name: "last", argv: [program, ...words], onFailure: "go-on" };
    const clock: Step = { name: "clock", argv: ["date", "+%s"], onFailure: "go-on" };
    const outputs = await this.#host.script({ steps: [last, clock] }, signal);
    const [at, now] = [last, clock].map(({ name }) => outputs.get(name)?.stdout.trim() ?? "");
    if (!/^\d+$/.test(at ?? "") || !/^\d+$/.test(now ?? "")) return undefined;
    return (Number(at) - Number(now) + 1) * 1000;
  }
}
