import { readFile } from "node:fs/promises";
import { fileFailure } from "../mount/files.ts";
import { RecordFolder } from "./record-folder.ts";

/**
 * Records the sessions with storage that csimux itself opened, one small file for each, by names that the caller
 * chooses. A session belongs to no single volume, because it can outlive them. Records from before the last boot do not
 * count: their sessions are gone, and the host may have opened its own since.
 */
export class OpenedSessions {
  readonly #folder: RecordFolder;
  readonly #boot: string;

  /** Creates `folder` if it is missing. `boot` is the path of the kernel's boot id, /proc/sys/kernel/random/boot_id. */
  constructor(folder: string, boot: string) {
    this.#folder = new RecordFolder(folder);
    this.#boot = boot;
  }

  /** Records that a session is about to be opened. Throws as fileFailure does. */
  async add(name: string): Promise<void> {
    const write = async () => this.#folder.write(name, await this.#text(name), false);
    await write().catch((cause: unknown) => {
      throw fileFailure(cause, `recording that ${name} is opened`);
    });
  }

  /** "now" if csimux opened it since the last boot, "before" if earlier, undefined if csimux did not open it. */
  async has(name: string): Promise<"now" | "before" | undefined> {
    const text = await this.#folder.read(name).catch(() => undefined);
    if (!text) return undefined;
    return text === (await this.#text(name)) ? "now" : "before";
  }

  /** Removes the record; succeeds if there is none. */
  async remove(name: string): Promise<void> {
    await this.#folder.remove(name).catch((cause: unknown) => {
      throw fileFailure(cause, `recording that ${name} is closed`);
    });
  }

  async #text(name: string): Promise<string> {
    return JSON.stringify({ name, boot: (await readFile(this.#boot, "utf8")).trim() });
  }
}
