import { readFile } from "node:fs/promises";
import { fileFailure } from "../mount/files.ts";
import { RecordFolder } from "./record-folder.ts";

/**
 * Which sessions with storage csimux opened itself, by names of the caller's choice: one small file for each. Volumes come and
 * go while a session stays, so it belongs to none of them. What was noted before the machine started last counts for nothing,
 * because its sessions are gone and others may have opened theirs since.
 */
export class OpenedSessions {
  readonly #folder: RecordFolder;
  readonly #boot: string;

  /** `folder` is made when it is missing. `boot` is the kernel's id of its start, /proc/sys/kernel/random/boot_id. */
  constructor(folder: string, boot: string) {
    this.#folder = new RecordFolder(folder);
    this.#boot = boot;
  }

  /** Notes that a session is about to be opened. Throws as fileFailure. */
  async add(name: string): Promise<void> {
    const write = async () => this.#folder.write(name, await this.#text(name), false);
    await write().catch((cause: unknown) => {
      throw fileFailure(cause, `noting that ${name} is opened`);
    });
  }

  /** "now" when it was opened since the machine started, "before" when earlier, undefined when it was not csimux. */
  async has(name: string): Promise<"now" | "before" | undefined> {
    const text = await this.#folder.read(name).catch(() => undefined);
    if (!text) return undefined;
    return text === (await this.#text(name)) ? "now" : "before";
  }

  /** Success when it was not noted. */
  async remove(name: string): Promise<void> {
    await this.#folder.remove(name).catch((cause: unknown) => {
      throw fileFailure(cause, `noting that ${name} is closed`);
    });
  }

  async #text(name: string): Promise<string> {
    return JSON.stringify({ name, boot: (await readFile(this.#boot, "utf8")).trim() });
  }
}
