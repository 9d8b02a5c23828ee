import { pause } from "../../../core/pause.ts";
import type { Step, StorageHost } from "../../../io/script.ts";

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
