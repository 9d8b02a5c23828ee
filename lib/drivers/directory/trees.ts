import type { Call } from "../../core/call.ts";
import { CsiError, errnoOf } from "../../core/errors.ts";
import { throwIfCancelled } from "../failure.ts";
import { type FileKind, unless } from "./files.ts";
import type { TreeKind } from "./layout.ts";
import { refuseMounted, refuseMounts } from "./mounted.ts";
import { type OperationContext, present, withFolders } from "./operation-context.ts";
import { removeTree } from "./tools.ts";

/**
 * Why a tree with content cannot move to the work folder: there is no space, or the tree is on another file system or in another
 * quota project (rename(2), xfs_quota(8)).
 */
const immovable = ["ENOSPC", "EDQUOT", "EXDEV"];
const notEmpty = ["ENOTEMPTY", "EEXIST"];

/** The permissions of an empty tree, less the umask. */
const plainMode = 0o755;

/** The content of a new tree: none, so that one step makes it, or what a function puts into a work folder. */
export type InitialContent = "empty" | ((folder: string) => Promise<void>);

/** The finished, half-built and half-removed trees of one sort. */
export class Trees {
  readonly #space: OperationContext;
  readonly #sort: TreeKind;

  constructor(space: OperationContext, sort: TreeKind) {
    this.#space = space;
    this.#sort = sort;
  }

  /** Runs `work` unless this tree is being changed already ("aborted"): a delete sweeps away what a create of it builds. */
  alone<T>(name: string, work: () => Promise<T>): Promise<T> {
    return this.#space.locks.hold([this.#path(name)], work);
  }

  /** Whether the finished tree exists. Throws "failed-precondition" when a link or file stands in its place. */
  async has(name: string): Promise<boolean> {
    const entry = await this.#entry(name);
    if (entry === "other") throw this.#notAFolder(name);
    return entry === "folder";
  }

  /** As `has`, but false for a link or file: for listings, which leave foreign things out. */
  async isTree(name: string): Promise<boolean> {
    return (await this.#entry(name)) === "folder";
  }

  /** Names of everything in the folder of this sort, unchecked. Throws "unavailable" when the base folder is away. */
  async names(): Promise<readonly string[]> {
    const names = await unless(this.#space.files.names(this.#root), "ENOENT");
    if (names === undefined) await present(this.#space);
    return names ?? [];
  }

  /** Puts the names of the finished trees on stable storage. */
  sync(): Promise<void> {
    return this.#space.files.sync(this.#root);
  }

  /**
   * Makes the tree appear complete or not at all: empty and at once, or filled by `fill` in a work folder and then renamed.
   * The caller knows that the tree is absent, and has just put its record on disk.
   */
  async place(name: string, fill: InitialContent): Promise<void> {
    const { files, layout } = this.#space;
    const tree = this.#path(name);
    if (fill === "empty")
      return this.#settle(await withFolders(this.#space, [this.#root], () => files.makeFolder(tree, plainMode)));
    const folder = layout.workTree(this.#sort, name);
    await withFolders(this.#space, this.#work, () => files.makeFolder(folder, 0o700));
    await fill(folder);
    // rename(2) would silently replace an empty folder.
    if (await this.has(name)) throw new CsiError("aborted", `${tree} appeared meanwhile; repeat the call`);
    await this.#settle(await withFolders(this.#space, [this.#root], () => files.rename(folder, tree)));
  }

  /**
   * Makes the tree and its record disappear. A tree with content first moves to the work folder in one step; `mark` makes sure that
   * a record tells of it. Resolves when all bytes are gone, also those of interrupted calls, and would stay gone in a power failure.
   * Throws "failed-precondition" while the tree is mounted somewhere on this machine, or something is mounted in it.
   */
  async remove(name: string, record: string | undefined, mark: () => Promise<unknown>, call: Call): Promise<void> {
    const { files, layout } = this.#space;
    await refuseMounted(this.#space, this.#root, name);
    const outcome = await this.#removeEmpty(name);
    if (outcome === "absent") {
      await present(this.#space);
      await this.sweep(name, call);
    }
    if (outcome === "full") {
      throwIfCancelled(this.#space, call);
      await refuseMounts(this.#space, this.#path(name));
      await this.#discard(await this.#moveAway(name, mark), call);
      // Another csimux on this base may have begun to build the tree as well.
      await this.sweep(name, call);
    }
    // Content that comes back after a power failure, out of sight, would stay for ever.
    if (outcome !== "removed") await unless(files.sync(layout.work), "ENOENT");
    await this.#drop(record);
    // The first delete of all finds no folder to sync; any other proves that its base folder is still there.
    await (outcome === "absent" ? unless(this.sync(), "ENOENT") : this.sync());
  }

  /** Removes what interrupted calls left of this tree in the work folder. */
  async sweep(name: string, call: Call): Promise<void> {
    const { files, layout } = this.#space;
    const prefix = layout.workPrefix(this.#sort, name);
    const left = (await unless(files.names(layout.work), "ENOENT")) ?? [];
    for (const entry of left.filter(other => other.startsWith(prefix))) {
      throwIfCancelled(this.#space, call);
      // Taken over first: whoever is still building it under the old name can no longer rename it into place.
      const taken = layout.workTree(this.#sort, name);
      await unless(files.rename(`${layout.work}/${entry}`, taken), "ENOENT");
      await this.#discard(taken, call);
    }
  }

  /**
   * Undoes a failed `place`: what is half-built, then the record. A tree that did appear stays. Tells whether nothing is left.
   */
  async abandon(name: string, record: string, call: Call): Promise<boolean> {
    if (await this.has(name)) return false;
    await this.sweep(name, call);
    await this.#drop(record);
    return true;
  }

  get #root(): string {
    return this.#space.layout.root(this.#sort);
  }

  /** The folders that lead to work trees, outermost first. */
  get #work(): readonly string[] {
    const { own, work } = this.#space.layout;
    return [own, work];
  }

  #path(name: string): string {
    return this.#space.layout.tree(this.#sort, name);
  }

  #entry(name: string): Promise<FileKind | undefined> {
    return this.#space.files.entry(this.#path(name));
  }

  #notAFolder(name: string): CsiError {
    const text = `${this.#path(name)} is a link or a file, not a folder of its own; csimux does not touch it`;
    return new CsiError("failed-precondition", `connection "${this.#space.connection}": ${text}`);
  }

  /** Makes a new name in the root durable, and the root's own name when it is new. */
  async #settle(freshRoot: boolean): Promise<void> {
    const { files, layout } = this.#space;
    await Promise.all(freshRoot ? [this.sync(), files.sync(layout.base)] : [this.sync()]);
  }

  /** Removes the tree at once when it is empty, as that is one step. */
  async #removeEmpty(name: string): Promise<"removed" | "absent" | "full"> {
    try {
      await this.#space.files.removeFolder(this.#path(name));
      return "removed";
    } catch (error) {
      const errno = errnoOf(error) ?? "";
      if (notEmpty.includes(errno)) return "full";
      if (errno === "ENOENT") return "absent";
      if (errno === "ENOTDIR") throw this.#notAFolder(name);
      throw error;
    }
  }

  /** Takes the tree out of sight in one step. Returns where it is now: where it was, when it cannot move. */
  async #moveAway(name: string, mark: () => Promise<unknown>): Promise<string> {
    const { files, layout } = this.#space;
    const away = layout.workTree(this.#sort, name);
    try {
      await mark();
      await withFolders(this.#space, this.#work, () => files.rename(this.#path(name), away));
      return away;
    } catch (error) {
      // Making space must not need any, and what can be removed must not stay for ever.
      if (immovable.includes(errnoOf(error) ?? "")) return this.#path(name);
      throw error;
    }
  }

  /** Removes a folder with all its content. */
  async #discard(path: string, call: Call): Promise<void> {
    if (await this.#removeIfEmpty(path)) return;
    await refuseMounts(this.#space, path);
    await removeTree(this.#space, path, call);
  }

  async #drop(record: string | undefined): Promise<void> {
    if (record === undefined) return;
    const { files } = this.#space;
    await unless(files.removeFile(record), "ENOENT", "ENOTDIR").catch(async (cause: unknown) => {
      // A read-only file system is mentioned before a missing file.
      if (errnoOf(cause) !== "EROFS" || (await files.entry(record)) !== undefined) throw cause;
    });
  }

  /** Whether the folder is gone now. What keeps it does not matter here: content, a mount, its owner, or that it is a link. */
  async #removeIfEmpty(folder: string): Promise<boolean> {
    try {
      await this.#space.files.removeFolder(folder);
      return true;
    } catch (error) {
      const errno = errnoOf(error);
      if (errno === undefined) throw error;
      return errno === "ENOENT";
    }
  }
}
