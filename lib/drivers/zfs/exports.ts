import { setTimeout as pause } from "node:timers/promises";
import type { Step, StorageHost } from "../../io/script.ts";
import { ZfsError } from "./zfs.ts";

/** Where Linux shows which folders its NFS server holds on to. */
const table = "/proc/net/rpc/nfsd.export/content";

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

/** How long exports must not change before a flush empties the cache, in milliseconds: it counts whole seconds. */
const quietMs = 2_100;

/** How often a folder is looked for after a flush, before the call is given up. */
const tries = 3;

/** Whether the NFS server holds on to a folder: ends with code 0 when it does. A system without the table has no such cache. */
export function cachedStep(mountpoint: string, privileged: readonly string[]): Step {
  const [program = "grep", ...words] = [...privileged, "grep", "-qsF", "-e", `${mountpoint}\t`, table];
  return { name: "cached", argv: [program, ...words], onFailure: "go-on" };
}

/**
 * The export cache of a host's NFS server. Each change of its exports flushes the cache; more than one flush a second moves the
 * moment of the flush ahead of the clock, and until that moment nothing leaves the cache (sunrpc, cache_flush). So those who wait
 * for it wait together for a pause, and then flush once.
 */
export class ExportCache {
  readonly #host: StorageHost;
  readonly #privileged: readonly string[];
  #lastChange = 0;
  #round: Promise<void> | undefined;

  constructor(host: StorageHost, privileged: readonly string[]) {
    this.#host = host;
    this.#privileged = privileged;
  }

  /** Says that exports are changed now. */
  changed(): void {
    this.#lastChange = performance.now();
  }

  /** Waits until the server has let go of a folder that is not exported any more. Throws "busy" when it does not. */
  async settled(mountpoint: string, signal: AbortSignal): Promise<void> {
    for (let attempt = 0; attempt < tries; attempt++) {
      this.#round ??= this.#flush(signal).finally(() => {
        this.#round = undefined;
      });
      await this.#round;
      const step = cachedStep(mountpoint, this.#privileged);
      if ((await this.#host.script({ steps: [step] }, signal)).get(step.name)?.exitCode !== 0) return;
    }
    throw new ZfsError("busy", `the NFS server still holds on to ${mountpoint}`);
  }

  async #flush(signal: AbortSignal): Promise<void> {
    for (let left = quietMs; left > 0; left = this.#lastChange + quietMs - performance.now()) await pause(left);
    signal.throwIfAborted();
    const [first = "exportfs", ...rest] = [...this.#privileged, "exportfs", "-f"];
    await this.#host.script({ steps: [{ name: "flush", argv: [first, ...rest], onFailure: "go-on" }] }, signal);
  }
}
