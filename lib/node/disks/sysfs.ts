import { readdir, readFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import { CsiError } from "../../core/errors.ts";
import { commandFailure } from "../../io/commands.ts";
import type { CommandRunner } from "../../io/runner.ts";

/** How long the kernel may take to act on a written attribute, in milliseconds: scanning asks the storage. */
const writeMs = 60_000;

/** The kernel's own account of devices, sessions and controllers (sysfs(5)). Paths are below /sys. */
export class Sysfs {
  readonly #root: string;
  readonly #runner: CommandRunner;

  /** `root` is /sys outside tests. */
  constructor(root: string, runner: CommandRunner) {
    this.#root = root;
    this.#runner = runner;
  }

  /** The text of an attribute without white space around it; empty when there is none or it cannot be read. */
  async text(...path: readonly string[]): Promise<string> {
    return (await readFile(join(this.#root, ...path), "utf8").catch(() => "")).trim();
  }

  /** Names in a folder, sorted; none when there is no such folder. */
  async names(...path: readonly string[]): Promise<readonly string[]> {
    return (await readdir(join(this.#root, ...path)).catch(() => [])).sort();
  }

  /** Where a link leads, below /sys; undefined when it leads nowhere. */
  async target(...path: readonly string[]): Promise<string | undefined> {
    const root = await realpath(this.#root).catch(() => this.#root);
    const real = await realpath(join(this.#root, ...path)).catch(() => undefined);
    return real?.startsWith(`${root}/`) ? real.slice(root.length + 1) : undefined;
  }

  /**
   * Writes an attribute, by a program: the kernel may take its time, and a thread of this process must not wait for it.
   * Throws "unavailable" when it refuses. What is gone already counts as written where `mayBeGone`.
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
