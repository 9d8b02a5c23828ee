import { readdir, readFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import { CsiError } from "../../core/errors.ts";
import { pause } from "../../core/time.ts";
import { type CommandRunner, run } from "../../io/runner.ts";

/** Time limit for the kernel to act on a written attribute, in milliseconds: scanning queries the storage. */
const writeMs = 60_000;

/** Devices, sessions and controllers as the kernel shows them (sysfs(5)). Paths are relative to /sys. */
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
    return (await readFile(join(this.#root, ...path), "utf8").catch(() => "")).trim();
  }

  /** The sorted names in a folder; empty if the folder does not exist. */
  async names(...path: readonly string[]): Promise<readonly string[]> {
    return (await readdir(join(this.#root, ...path)).catch(() => [])).sort();
  }

  /** The target of a link, relative to /sys; undefined if it is missing or outside /sys. */
  async target(...path: readonly string[]): Promise<string | undefined> {
    const root = await realpath(this.#root).catch(() => this.#root);
    const real = await realpath(join(this.#root, ...path)).catch(() => undefined);
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

/**
 * The defined results of several tasks, once all have ended or `graceMs` after the first result, so that a dead path
 * does not delay working ones. Rejects with the signal's reason when that aborts.
 */
export async function resultsWithGrace<T>(
  work: readonly Promise<T | undefined>[],
  graceMs: number,
  signal: AbortSignal,
): Promise<readonly T[]> {
  const done: T[] = [];
  const all = Promise.all(
    work.map(async each => {
      const result = await each;
      if (result !== undefined) done.push(result);
    }),
  );
  const first = Promise.any(work.map(async each => (await each) ?? Promise.reject(new Error("nothing"))));
  let timer: ReturnType<typeof setTimeout> | undefined;
  const grace = first.then(
    () => new Promise<void>(resolve => (timer = setTimeout(resolve, graceMs))),
    () => {},
  );
  await Promise.race([all, grace.then(() => first.catch(() => all))]);
  clearTimeout(timer);
  signal.throwIfAborted();
  return [...done];
}
