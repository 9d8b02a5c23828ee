import type { Call } from "../../core/call.ts";
import type { CsiError } from "../../core/errors.ts";
import { type FileKind, type FolderFacts, unless } from "../../io/files.ts";
import { throwIfCancelled } from "../failure.ts";
import type { TreeKind } from "./layout.ts";
import { refuseMounted } from "./mounted.ts";
import { errorOn, type OperationContext, present, withFolders } from "./operation-context.ts";
import { type Claim, discard, dropRecord, holdingRecord, immovable, isMoved, removeIfEmpty } from "./removal.ts";

/** The permissions of a new tree, less the umask; what is copied into it brings its own. Nobody else sees it in the work folder. */
const plainMode = 0o755;

/** The content of a new tree: none, so that one step makes it, or what a function puts into a work folder. */
export type InitialContent = "empty" | ((folder: string) => Promise<void>);

type TreeIdentity = Pick<FolderFacts, "kind" | "mark">;

/** What `remove` removes. */
interface Removal {
  /** What `current` has returned. */
  readonly current: string | undefined;
  readonly record: string | undefined;
  mark(): Promise<unknown>;
}

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
   * The caller has checked that the tree is absent and has put its record on disk. Returns whether it has appeared, as `appear` does.
   */
  async place(name: string, fill: InitialContent, claim: Claim, call: Call): Promise<boolean> {
    const { files, layout } = this.#context;
    const make = () => files.makeFolder(this.#path(name), plainMode);
    if (fill === "empty") return this.#settle(await withFolders(this.#context, [this.#root], make));
    const folder = layout.workTree(this.#kind, name);
    await withFolders(this.#context, this.#work, () => files.makeFolder(folder, plainMode));
    await fill(folder);
    const hasAppeared = await this.appear(name, folder, claim);
    if (!hasAppeared) await discard(this.#context, folder, call);
    return hasAppeared;
  }

  /** Gives a complete folder the name of the tree, in one step. Returns whether it has: not if the tree exists, or another claims it. */
  async appear(name: string, folder: string, claim: Claim): Promise<boolean> {
    const rename = () => this.#context.files.rename(folder, this.#path(name));
    // rename(2) would silently replace an empty folder: no one can begin another tree of this name while the record is held.
    const isFresh = await holdingRecord(this.#context.files, claim.file, async () => {
      if (!(await claim.isStill()) || (await this.has(name))) return undefined;
      return unless(withFolders(this.#context, [this.#root], rename), "ENOENT");
    });
    return isFresh !== undefined && this.#settle(isFresh);
  }

  /**
   * The identity of the finished tree: another one for each tree that gets this name. Undefined if there is none. Throws
   * "failed-precondition" if its path is a link or a file.
   */
  async current(name: string, record: string | undefined): Promise<string | undefined> {
    const path = this.#path(name);
    const found = (await this.#identity(path, record)) ?? (await this.#onServer(path, record));
    if (found?.kind === "other") throw this.#notAFolder(name);
    return found?.mark;
  }

  /**
   * Removes the tree that was `current`, if any, and its record. When it resolves, all content is gone, including that of interrupted calls,
   * and stays gone after a power failure; a tree that another controller has made under this name since then stays. `mark` ensures that a
   * tree with content has a record. Throws "failed-precondition" while the tree is mounted on this machine, or something is mounted in it.
   */
  async remove(name: string, { current, record, mark }: Removal, call: Call): Promise<void> {
    const { files, layout } = this.#context;
    await refuseMounted(this.#context, this.#root, name);
    throwIfCancelled(this.#context, call);
    if (current === undefined) {
      await present(this.#context);
      if (await this.#sweptAndRestored(name, record, call)) throw this.#changed(name);
      // Content that reappeared in the work folder after a power failure would never be removed.
      await unless(files.sync(layout.work), "ENOENT");
      await this.#lookAgain();
    } else {
      const taken = await this.#take(name, current);
      if (!(await this.#isProved(name, taken, { current, record, mark }))) return;
      if (!(await removeIfEmpty(this.#context, taken))) {
        const away = await this.#decided(name, taken, call);
        await unless(mark(), ...immovable);
        await discard(this.#context, away, call);
        // Another csimux on this base folder may have started to build the tree, too.
        for (const left of await this.#sweep(name, call)) this.#warn(left, call);
        await unless(files.sync(layout.work), "ENOENT");
      }
    }
    const isGone = await this.#dropRecord(name, record, call);
    // Another controller may have taken it for what a dead one had left, and have moved it back.
    if (!isGone && current !== undefined && (await this.#identity(this.#path(name), record))?.mark === current)
      throw this.#changed(name);
    // The very first delete finds no folder to sync; for any other, the sync proves that the base folder still exists.
    await (current === undefined ? unless(this.sync(), "ENOENT") : this.sync());
  }

  /** Removes what interrupted calls left of this tree. Returns the paths of what they have moved out of its place and not decided on. */
  async #sweep(name: string, call: Call): Promise<readonly string[]> {
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
    const [beside, taken] = [layout.beside(this.#kind, name), layout.takenBeside(this.#kind, name)];
    if ((await files.entry(beside)) !== undefined) await discard(this.#context, beside, call);
    const undecided = left.filter(other => other.startsWith(layout.takenPrefix(this.#kind, name)));
    const all = undecided.map(entry => `${layout.work}/${entry}`);
    return (await files.entry(taken)) === undefined ? all : [...all, taken];
  }

  /**
   * Sweeps while the tree is not in its place. Of what a dead controller has moved away undecided, removes the one that it was to remove, and
   * moves any other one back. Returns whether there was another one.
   */
  async #sweptAndRestored(name: string, record: string | undefined, call: Call): Promise<boolean> {
    let hasOther = false;
    for (const taken of await this.#sweep(name, call)) {
      const mark = (await this.#identity(taken, record))?.mark ?? "";
      if (this.#context.layout.isTaken(taken, this.#kind, name, mark))
        await discard(this.#context, await this.#decided(name, taken, call), call);
      else {
        hasOther = true;
        if (!(await this.#putBack(name, taken))) this.#warn(taken, call);
      }
    }
    return hasOther;
  }

  /**
   * Removes what a failed or interrupted call has left of a tree that did not appear: what is in the work folder, then the record. Keeps a
   * tree that did appear, with its record. Returns whether nothing is left.
   */
  async clear(name: string, record: string, call: Call): Promise<boolean> {
    if (await this.has(name)) return false;
    if (await this.#sweptAndRestored(name, record, call)) return false;
    await this.#lookAgain();
    return await this.#dropRecord(name, record, call);
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
    return errorOn(this.#context, "failed-precondition", text);
  }

  /** Makes a new name in the root durable, and the name of the root itself if it is new. */
  async #settle(freshRoot: boolean): Promise<true> {
    const { files, layout } = this.#context;
    await Promise.all(freshRoot ? [this.sync(), files.sync(layout.base)] : [this.sync()]);
    return true;
  }

  /** What is at the path of a tree. NFS may answer for an earlier one of the name, but not with its record: opening a file asks the server. */
  async #identity(path: string, record: string | undefined): Promise<TreeIdentity | undefined> {
    const { files, local } = this.#context;
    const text = local || record === undefined ? undefined : await files.readText(record);
    const facts = await unless(files.facts(path), "ENOENT", "ENOTDIR");
    // The first line, to which an expansion by another controller adds others, is that of the creation.
    return facts && { kind: facts.kind, mark: `${facts.mark} ${text?.split("\n", 1)[0] ?? ""}` };
  }

  /** What is at the path of a tree that was not found. A client of NFS may have answered from its cache, or the share was being mounted again. */
  async #onServer(path: string, record: string | undefined): Promise<TreeIdentity | undefined> {
    const { files, layout, local } = this.#context;
    if (local) return undefined;
    await present(this.#context);
    await Promise.all([this.#lookAgain(), files.sync(layout.own).catch(() => undefined)]);
    return this.#identity(path, record);
  }

  /**
   * Moves the tree out of its place in one step, and returns its new path, or the old one if it cannot move at all. It may be gone, or another
   * one by now: until that is decided, no other call removes it.
   */
  async #take(name: string, current: string): Promise<string> {
    const { files, layout } = this.#context;
    const [tree, taken] = [this.#path(name), layout.taken(this.#kind, name, current)];
    if (await isMoved(withFolders(this.#context, this.#work, () => files.rename(tree, taken)))) return taken;
    const beside = layout.takenBeside(this.#kind, name);
    const isFree = (await files.entry(beside)) === undefined;
    return isFree && (await isMoved(files.rename(tree, beside))) ? beside : tree;
  }

  /** Gives what is proved to be the tree to remove a name under which others remove it, too. Returns where it is. */
  async #decided(name: string, taken: string, call: Call): Promise<string> {
    const { files, layout } = this.#context;
    if (taken === this.#path(name)) return taken;
    const isBeside = taken === layout.takenBeside(this.#kind, name);
    const away = isBeside ? layout.beside(this.#kind, name) : layout.workTree(this.#kind, name);
    if (isBeside) await discard(this.#context, away, call);
    return (await isMoved(files.rename(taken, away))) ? away : taken;
  }

  /** Whether what was moved away may be removed. If not, another controller has made it meanwhile, and it is back in its place. */
  async #isProved(name: string, taken: string, { current, record }: Removal): Promise<boolean> {
    const { files, local } = this.#context;
    // Opening a folder asks the server of an NFS mount which one it is (nfs(5), "Close-to-open cache consistency").
    if (!local) await unless(files.names(taken), "ENOENT", "ENOTDIR");
    const found = await this.#identity(taken, record);
    if (found === undefined || found.mark === current) return true;
    await this.#putBack(name, taken);
    await this.sync();
    if ((await this.#identity(this.#path(name), record))?.mark === found.mark) return false;
    throw this.#changed(name);
  }

  /** Returns whether it is no longer where it was. It stays there if something else is in its place by now. */
  async #putBack(name: string, taken: string): Promise<boolean> {
    if ((await this.#entry(name)) !== undefined) return false;
    await unless(this.#context.files.rename(taken, this.#path(name)), "ENOENT");
    return true;
  }

  #changed(name: string): CsiError {
    const text = `${this.#path(name)} was changed by another process while it was being removed; retrying`;
    return errorOn(this.#context, "aborted", text);
  }

  #warn(folder: string, { log }: Call): void {
    const what = { connection: this.#context.connection, folder };
    log.warn("a folder that was moved aside for a removal, and may be another one, stays there", what);
  }

  /** After this, NFS asks the server again for names that it has not found: it opens their folder. */
  async #lookAgain(): Promise<void> {
    await this.sync().catch(() => undefined);
  }

  /** Removes the record of a tree, unless the tree is there. Returns whether it is not. */
  async #dropRecord(name: string, record: string | undefined, call: Call): Promise<boolean> {
    if (record === undefined) return (await this.#entry(name)) === undefined;
    return dropRecord(this.#context.files, record, {
      isThere: async () => (await this.#entry(name)) !== undefined,
      sweep: () => this.#sweep(name, call),
    });
  }
}
