import { readdir, readFile, realpath } from "node:fs/promises";
import { isIP } from "node:net";
import { join } from "node:path";
import { CsiError, hasCode } from "../../core/errors.ts";
import { pause } from "../../core/time.ts";
import { hostNames } from "../../io/host-names.ts";
import { type CommandRunner, run } from "../../io/runner.ts";
import { bounded, unlessExhausted } from "../mount/files.ts";

/** Time limit for the kernel to act on a written attribute, in milliseconds: scanning queries the storage. */
const writeMs = 60_000;

/**
 * Devices, sessions and controllers as the kernel shows them (sysfs(5)). Paths are relative to /sys. Reading throws "unavailable" if this
 * process can read nothing: a session that seems to be gone would be left open and forgotten.
 */
export class Sysfs {
  readonly #root: string;
  readonly #runner: CommandRunner;

  /** `root` is /sys outside tests. */
  constructor(root: string, runner: CommandRunner) {
    this.#root = root;
    this.#runner = runner;
  }

  /** The text of an attribute, trimmed; empty if the attribute is missing or unreadable. */
  async text(...path: readonly string[]): Promise<string> {
    return (await readFile(join(this.#root, ...path), "utf8").catch(unlessExhausted(""))).trim();
  }

  /** The sorted names in a folder; empty if the folder does not exist. */
  async names(...path: readonly string[]): Promise<readonly string[]> {
    return (await readdir(join(this.#root, ...path)).catch(unlessExhausted([]))).sort();
  }

  /** The target of a link, relative to /sys; undefined if it is missing or outside /sys. */
  async target(...path: readonly string[]): Promise<string | undefined> {
    const root = await realpath(this.#root).catch(() => this.#root);
    const real = await realpath(join(this.#root, ...path)).catch(unlessExhausted(undefined));
    return real?.startsWith(`${root}/`) ? real.slice(root.length + 1) : undefined;
  }

  /**
   * Writes an attribute with a separate program: the kernel may be slow, and must not block a thread of this process.
   * Throws "unavailable" if the kernel refuses. With `mayBeGone`, writing to a device that no longer exists succeeds.
   */
  async write(path: readonly string[], text: string, signal: AbortSignal, mayBeGone = false): Promise<void> {
    const file = join(this.#root, ...path);
    const task = `writing ${JSON.stringify(text)} to ${file}`;
    const argv = ["dd", `of=${file}`, "conv=notrunc,nocreat", "status=none"] as const;
    const output = await run(this.#runner, { argv, stdin: text, timeoutMs: writeMs }, task, signal);
    if (output.exitCode === 0 || (mayBeGone && (await this.text(...path, "..", "uevent")) === "")) return;
    throw new CsiError("unavailable", `${task} failed: ${output.stderr.trim().slice(0, 300)}`);
  }
}

/** The size of a block device in bytes; 0 if it has none. */
export async function bytesOf(name: string, sysfs: Sysfs): Promise<bigint> {
  const sectors = await sysfs.text("class/block", name, "size");
  return /^[0-9]+$/.test(sectors) ? BigInt(sectors) * 512n : 0n;
}

const stepMs = 50;

/**
 * Calls `ask` at growing intervals until it returns a value, for at most `ms` milliseconds. Returns undefined if that
 * time passes without one. Throws "unavailable" when the call ends.
 */
export async function pollUntil<T>(
  ms: number,
  ask: () => Promise<T | undefined>,
  task: string,
  signal: AbortSignal,
): Promise<T | undefined> {
  const end = performance.now() + ms;
  for (let wait = stepMs; ; wait = Math.min(2 * wait, 1_000)) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    const left = end - performance.now();
    if (left <= 0) return undefined;
    await pause(Math.min(wait, left), signal).catch(() => {
      throw new CsiError("unavailable", `${task} did not finish before the call ended`);
    });
  }
}

/** How long the remaining paths may take once one is open, in milliseconds: a dead path does not delay working ones. */
const usualGraceMs = 10_000;

/**
 * Opens `all` paths to a disk, or the first that works: a second one is useless without multipath. Calls `failed` for
 * each that does not open. If none opens, throws the error of a path, refused credentials before others.
 */
export async function openPaths<P, T>(
  paths: readonly P[],
  all: boolean,
  open: (path: P) => Promise<T>,
  failed: (path: P, reason: string) => void,
  signal: AbortSignal,
  graceMs = usualGraceMs,
): Promise<readonly T[]> {
  const failures: unknown[] = [];
  const opened: T[] = [];
  const attempt = async (path: P): Promise<void> => {
    try {
      opened.push(await open(path));
    } catch (error) {
      failures.push(error);
      failed(path, error instanceof CsiError ? error.message : "an unknown error");
      throw error;
    }
  };
  const none = () => {};
  if (all) {
    const attempts = paths.map(attempt);
    const ended = Promise.allSettled(attempts);
    const late = new AbortController();
    const grace = Promise.any(attempts).then(() => pause(graceMs, late.signal));
    await Promise.race([ended, grace.catch(() => ended)]);
    late.abort();
    signal.throwIfAborted();
  } else for (const path of paths) if (opened.length === 0) await attempt(path).catch(none);
  if (opened.length > 0) return [...opened];
  const refused = failures.find(error => hasCode(error, "unauthenticated"));
  throw refused ?? failures[0] ?? signal.reason;
}

/**
 * The paths that are being opened, by their target. A slow one still is after the volume was attached over others (openPaths) and the target's
 * lock released. What detaches waits for it: a session that is opened after that would stay, because nothing knows it.
 */
export class OpeningPaths {
  readonly #running = new Map<string, Set<Promise<unknown>>>();

  async run<T>(target: string, open: () => Promise<T>): Promise<T> {
    const running = this.#running.get(target) ?? new Set();
    this.#running.set(target, running);
    const opening = open();
    running.add(opening);
    try {
      return await opening;
    } finally {
      running.delete(opening);
      if (running.size === 0) this.#running.delete(target);
    }
  }

  /** Waits until none is being opened, less than a minute. Throws "unavailable" when the call ends first. */
  async ended(target: string, signal: AbortSignal): Promise<void> {
    const all = Promise.allSettled(this.#running.get(target) ?? []);
    await bounded(all, `opening the paths to ${target}, which was begun before,`, signal);
  }
}

/** The items for which `test` resolves with true. */
export async function filtered<P>(items: readonly P[], test: (item: P) => Promise<boolean>): Promise<readonly P[]> {
  const passed = await Promise.all(items.map(test));
  return items.filter((_, index) => passed[index]);
}

/** The paths without a session that answer; none while one session is left and `all` are not needed. */
export async function lostPaths<P>(
  paths: readonly P[],
  all: boolean,
  find: (path: P) => Promise<unknown>,
  answers: (path: P) => Promise<boolean>,
): Promise<readonly P[]> {
  const lost = await filtered(paths, async path => (await find(path)) === undefined);
  return all || lost.length === paths.length ? await filtered(lost, answers) : [];
}

/** The addresses of a host given by name or address, because the kernel knows no names. Empty if it cannot be resolved. */
export async function addressesOf(host: string, signal: AbortSignal): Promise<readonly string[]> {
  if (isIP(host)) return [host];
  const found = await bounded(hostNames.addressesOf(host), `resolving ${host}`, signal).catch(() => []);
  return found.map(({ address }) => address);
}
