import type { Call } from "../../core/call.ts";
import { CsiError, errnoOf } from "../../core/errors.ts";
import { type FileKind, unless } from "../../io/files.ts";
import { throwIfCancelled } from "../failure.ts";
import type { TreeKind } from "./layout.ts";
import { refuseMounted, refuseMounts } from "./mounted.ts";
import { type OperationContext, present, withFolders } from "./operation-context.ts";
import { removeTree } from "./tools.ts";

/** A tree cannot move to the work folder: no space, another file system, or another quota project (rename(2), xfs_quota(8)). */
export const immovable: readonly string[] = ["ENOSPC", "EDQUOT", "EXDEV"];
const notEmpty = ["ENOTEMPTY", "EEXIST"];

/** The permissions of an empty tree, less the umask. */
const plainMode = 0o755;

/** The content of a new tree: none, so that one step makes it, or what a function puts into a work folder. */
export type InitialContent = "empty" | ((folder: string) => Promise<void>);

/** The finished, half-built and half-removed trees of one kind. */
export class Trees {
  readonly #context: OperationContext;
  readonly #kind: TreeKind;

  constructor(context: OperationContext, kind: TreeKind) {
    this.#context = context;
    this.#kind = kind;
  }

  /** Runs `work`, or throws "aborted" if the tree is being changed: a delete would sweep away what a create builds. */
  alone<T>(name: string, work: () => Promise<T>): Promise<T> {
    return this.#context.locks.hold([this.#path(name)], work);
  }

  /** Whether the finished tree exists. Throws "failed-precondition" if its path is a link or a file. */
  async has(name: string): Promise<boolean> {
    const entry = await this.#entry(name);
    if (entry === "other") throw this.#notAFolder(name);
    return entry === "folder";
  }

  /** Like `has`, but false for a link or a file: listings omit foreign objects. */
  async isTree(name: string): Promise<boolean> {
    return (await this.#entry(name)) === "folder";
  }

  /** All names in the folder of this kind, unchecked. Throws "unavailable" if the base folder is missing. */
  async names(): Promise<readonly string[]> {
    const names = await unless(this.#context.files.names(this.#root), "ENOENT");
    if (names === undefined) await present(this.#context);
    return names ?? [];
  }

  /** Puts the names of the finished trees on stable storage. */
  sync(): Promise<void> {
    return this.#context.files.sync(this.#root);
  }

  /**
   * Makes the tree appear complete or not at all: empty and at once, or filled by `fill` in a work folder and then renamed.
   * The caller has checked that the tree is absent and has put its record on disk.
   */
  async place(name: string, fill: InitialContent): Promise<void> {
    const { files, layout } = this.#context;
    const tree = this.#path(name);
    if (fill === "empty")
      return this.#settle(await withFolders(this.#context, [this.#root], () => files.makeFolder(tree, plainMode)));
    const folder = layout.workTree(this.#kind, name);
    await withFolders(this.#context, this.#work, () => files.makeFolder(folder, 0o700));
    await fill(folder);
    await this.appear(name, folder);
  }

  /** Gives a complete folder the name of the tree, in one step. Throws "aborted" if the tree exists. */
  async appear(name: string, folder: string): Promise<void> {
    const tree = this.#path(name);
    // rename(2) would silently replace an empty folder.
    if (await this.has(name)) throw new CsiError("aborted", `${tree} appeared meanwhile; retrying`);
    await this.#settle(await withFolders(this.#context, [this.#root], () => this.#context.files.rename(folder, tree)));
  }

  /**
   * Removes the tree and its record. A tree with content first moves to the work folder in one step; `mark` ensures that it has
   * a record. When it resolves, all content is gone, including that of interrupted calls, and stays gone after a power failure.
   * Throws "failed-precondition" while the tree is mounted on this machine, or something is mounted in it.
   */
  async remove(name: string, record: string | undefined, mark: () => Promise<unknown>, call: Call): Promise<void> {
    const { files, layout } = this.#context;
    await refuseMounted(this.#context, this.#root, name);
    const outcome = await this.#removeEmpty(name);
    if (outcome === "absent") {
      await present(this.#context);
      await this.sweep(name, call);
    }
    if (outcome === "full") {
      throwIfCancelled(this.#context, call);
      await refuseMounts(this.#context, this.#path(name));
      await discard(this.#context, await this.#moveAway(name, mark), call);
      // Another csimux on this base folder may have started to build the tree, too.
      await this.sweep(name, call);
    }
    // Content that reappeared in the work folder after a power failure would never be removed.
    if (outcome !== "removed") await unless(files.sync(layout.work), "ENOENT");
    await dropRecord(this.#context, record);
    // The very first delete finds no folder to sync; for any other, the sync proves that the base folder still exists.
    await (outcome === "absent" ? unless(this.sync(), "ENOENT") : this.sync());
  }

  /** Removes what interrupted calls left of this tree in the work folder. */
  async sweep(name: string, call: Call): Promise<void> {
    const { files, layout } = this.#context;
    const prefix = layout.workPrefix(this.#kind, name);
    const left = (await unless(files.names(layout.work), "ENOENT")) ?? [];
    for (const entry of left.filter(other => other.startsWith(prefix))) {
      throwIfCancelled(this.#context, call);
      // Renamed first, so that a process still building it can no longer move it into place.
      const taken = layout.workTree(this.#kind, name);
      await unless(files.rename(`${layout.work}/${entry}`, taken), "ENOENT");
      await discard(this.#context, taken, call);
    }
  }

  /** Undoes a failed `place`: removes the work folder, then the record. Keeps a tree that did appear. Returns whether nothing is left. */
  async abandon(name: string, record: string, call: Call): Promise<boolean> {
    if (await this.has(name)) return false;
    await this.sweep(name, call);
    await dropRecord(this.#context, record);
    return true;
  }

  get #root(): string {
    return this.#context.layout.root(this.#kind);
  }

  /** The parents of work trees, outermost first. */
  get #work(): readonly string[] {
    const { own, work } = this.#context.layout;
    return [own, work];
  }

  #path(name: string): string {
    return this.#context.layout.tree(this.#kind, name);
  }

  #entry(name: string): Promise<FileKind | undefined> {
    return this.#context.files.entry(this.#path(name));
  }

  #notAFolder(name: string): CsiError {
    const text = `${this.#path(name)} is a link or a file instead of a folder; csimux does not change it`;
    return new CsiError("failed-precondition", `connection "${this.#context.connection}": ${text}`);
  }

  /** Makes a new name in the root durable, and the name of the root itself if it is new. */
  async #settle(freshRoot: boolean): Promise<void> {
    const { files, layout } = this.#context;
    await Promise.all(freshRoot ? [this.sync(), files.sync(layout.base)] : [this.sync()]);
  }

  /** Removes an empty tree, in one step. */
  async #removeEmpty(name: string): Promise<"removed" | "absent" | "full"> {
    try {
      await this.#context.files.removeFolder(this.#path(name));
      return "removed";
    } catch (error) {
      const errno = errnoOf(error) ?? "";
      if (notEmpty.includes(errno)) return "full";
      if (errno === "ENOENT") return "absent";
      if (errno === "ENOTDIR") throw this.#notAFolder(name);
      throw error;
    }
  }

  /** Moves the tree to the work folder in one step. Returns its new path, or the old one if it cannot move. */
  async #moveAway(name: string, mark: () => Promise<unknown>): Promise<string> {
    const { files, layout } = this.#context;
    const away = layout.workTree(this.#kind, name);
    try {
      await mark();
      await withFolders(this.#context, this.#work, () => files.rename(this.#path(name), away));
      return away;
    } catch (error) {
      // Freeing space must not require space, and a removable tree must not stay forever.
      if (immovable.includes(errnoOf(error) ?? "")) return this.#path(name);
      throw error;
    }
  }
}

/** Removes a folder and everything in it. Throws "failed-precondition" if something is mounted in it. Succeeds if it is not there. */
export async function discard(context: OperationContext, path: string, call: Call): Promise<void> {
  if (await removeIfEmpty(context, path)) return;
  await refuseMounts(context, path);
  await removeTree(context, path, call);
}

/** Removes the record of a tree, if it exists. */
export async function dropRecord({ files }: OperationContext, record: string | undefined): Promise<void> {
  if (record === undefined) return;
  await unless(files.removeFile(record), "ENOENT", "ENOTDIR").catch(async (cause: unknown) => {
    // The kernel checks for a read-only file system before it checks whether the file exists.
    if (errnoOf(cause) !== "EROFS" || (await files.entry(record)) !== undefined) throw cause;
  });
}

/** Whether the folder is gone now, whatever the reason if it is not: content, a mount, its owner, or that it is a link. */
async function removeIfEmpty({ files }: OperationContext, folder: string): Promise<boolean> {
  try {
    await files.removeFolder(folder);
    return true;
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === undefined) throw error;
    return errno === "ENOENT";
  }
}
