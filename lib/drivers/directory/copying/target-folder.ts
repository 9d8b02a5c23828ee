import type { Call } from "../../../core/call.ts";
import { errnoOf } from "../../../core/errors.ts";
import { unless } from "../../../io/files.ts";
import { throwIfCancelled } from "../../failure.ts";
import { errorOn, type OperationContext, withFolders } from "../operation-context.ts";
import { discard, immovable, removeIfEmpty } from "../removal.ts";

/** The folder that receives the content of a copy: in the work folder, where no node and no listing sees it. */
export class TargetFolder {
  readonly #context: OperationContext;
  readonly #id: string;
  /** Always the same, so that a repeat continues. */
  readonly path: string;

  constructor(context: OperationContext, id: string) {
    this.#context = context;
    this.#id = id;
    this.path = `${context.layout.work}/${context.layout.copyTarget(id)}`;
  }

  /** Whether it exists; one that `taken` has renamed gets its path back. Throws "failed-precondition" if something else has that. */
  async isThere(): Promise<boolean> {
    const { files, layout } = this.#context;
    let entry = await files.entry(this.path);
    if (entry === undefined)
      for (const name of await this.#beside(layout.finishingPrefix(this.#id))) {
        await unless(files.rename(`${layout.work}/${name}`, this.path), "ENOENT");
        entry = await files.entry(this.path);
      }
    if (entry !== "other") return entry !== undefined;
    const text = `${this.path} is a link or a file instead of a folder; csimux does not change it`;
    throw errorOn(this.#context, "failed-precondition", text);
  }

  /** Makes it, unless it exists. Throws "aborted" if its record is gone then: it would be in the way of the next copy. */
  async make(isRecorded: () => Promise<boolean>, call: Call): Promise<void> {
    const { files, layout } = this.#context;
    if (await this.isThere()) return;
    await this.#sweep(call);
    const make = () => unless(files.makeFolder(this.path, 0o700), "EEXIST");
    await withFolders(this.#context, [layout.own, layout.work], make);
    if (await isRecorded()) return;
    await removeIfEmpty(this.#context, this.path);
    throw errorOn(this.#context, "aborted", `the copy to volume "${this.#id}" was ended meanwhile; retrying`);
  }

  /**
   * Gives it a path that only the caller knows, which makes it the volume, and returns that. A process that becomes the holder uses `isThere`, `make`
   * or `remove` before it writes: then the caller, however late, finds nothing at this path.
   */
  async taken(): Promise<string> {
    const { files, layout } = this.#context;
    const path = layout.finishing(this.#id);
    await unless(files.rename(this.path, path), "ENOENT");
    return path;
  }

  /** Removes it, and what earlier removals and fillings have left next to it. */
  async remove(call: Call): Promise<void> {
    // Until a call that would make it the volume no longer finds it at either path.
    while (await this.isThere()) await this.#moveAside(call);
    await this.#sweep(call);
  }

  /** Removes it if it is empty. Returns whether it is gone. */
  removedIfEmpty(): Promise<boolean> {
    return removeIfEmpty(this.#context, this.path);
  }

  /** Renames it first, so that a program that still writes cannot write into a new target. */
  async #moveAside(call: Call): Promise<void> {
    const { files, layout } = this.#context;
    try {
      await unless(files.rename(this.path, layout.copyTargetAside(this.#id)), "ENOENT");
    } catch (error) {
      if (!immovable.includes(errnoOf(error) ?? "")) throw error;
      await discard(this.#context, this.path, call);
    }
  }

  async #sweep(call: Call): Promise<void> {
    const { layout } = this.#context;
    for (const name of await this.#beside(`${layout.copyTarget(this.#id)}~`)) {
      throwIfCancelled(this.#context, call);
      await discard(this.#context, `${layout.work}/${name}`, call);
    }
  }

  /** The names in the work folder with a prefix. */
  async #beside(prefix: string): Promise<readonly string[]> {
    const names = (await unless(this.#context.files.names(this.#context.layout.work), "ENOENT")) ?? [];
    return names.filter(name => name.startsWith(prefix));
  }
}
