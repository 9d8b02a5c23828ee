import { createHash } from "node:crypto";
import { mkdir, readFile, rename, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf } from "../../core/errno.ts";
import { fileFailure } from "../mount/files.ts";

/**
 * Which sessions with storage csimux opened itself, by names of the caller's choice: one small file for each. Volumes come and
 * go while a session stays, so it belongs to none of them. What was noted before the machine started last counts for nothing,
 * because its sessions are gone and others may have opened theirs since.
 */
export class OpenedSessions {
  readonly #folder: string;
  readonly #boot: string;

  /** `folder` is made when it is missing. `boot` is the kernel's id of its start, /proc/sys/kernel/random/boot_id. */
  constructor(folder: string, boot: string) {
    this.#folder = folder;
    this.#boot = boot;
  }

  /** Notes that a session is about to be opened. Throws as fileFailure. */
  async add(name: string): Promise<void> {
    const file = this.#file(name);
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      await writeFile(`${file}.new`, JSON.stringify({ name, boot: await this.#bootId() }), { mode: 0o600 });
      await rename(`${file}.new`, file);
    } catch (cause) {
      throw fileFailure(cause, `noting that ${name} is opened`);
    }
  }

  /** "now" when it was opened since the machine started, "before" when earlier, undefined when it was not csimux. */
  async has(name: string): Promise<"now" | "before" | undefined> {
    const text = await readFile(this.#file(name), "utf8").catch(() => "");
    if (text === "") return undefined;
    return text === JSON.stringify({ name, boot: await this.#bootId() }) ? "now" : "before";
  }

  /** Success when it was not noted. */
  async remove(name: string): Promise<void> {
    await unlink(this.#file(name)).catch((cause: unknown) => {
      if (errnoOf(cause) !== "ENOENT") throw fileFailure(cause, `noting that ${name} is closed`);
    });
  }

  async #bootId(): Promise<string> {
    return (await readFile(this.#boot, "utf8")).trim();
  }

  #file(name: string): string {
    return join(this.#folder, `${createHash("sha256").update(name).digest("hex")}.json`);
  }
}
