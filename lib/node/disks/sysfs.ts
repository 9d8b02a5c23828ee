import { readdir, readFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import { CsiError } from "../../core/errors.ts";
import { commandFailure } from "../../io/commands.ts";
import type { CommandRunner } from "../../io/runner.ts";

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
    const output = await this.#runner.run({ argv, stdin: text, timeoutMs: writeMs }, signal).catch((error: unknown) => {
      throw commandFailure(error, task);
    });
    if (output.exitCode === 0 || (mayBeGone && (await this.text(...path, "..", "uevent")) === "")) return;
    throw new CsiError("unavailable", `${task} failed: ${output.stderr.trim().slice(0, 300)}`);
  }
}
