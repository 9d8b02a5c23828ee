import type { Call } from "../../core/call.ts";
import { CsiError } from "../../core/errors.ts";
import { errnoOf, unless } from "./files.ts";
import type { Sort } from "./layout.ts";
import { present, type Space, stillWanted, withFolders } from "./space.ts";
import { removeTree } from "./tools.ts";

const notEmpty = ["ENOTEMPTY", "EEXIST"] as const;
const notAFolder = (space: Space, path: string) =>
  new CsiError(
    "failed-precondition",
    `connection "${space.connection}": ${path} is no folder of its own (a link or a file); csimux does not touch it`,
  );

import { Locks } from "../../core/locks.ts";
/** The finished, half-built and half-removed trees of one sort. */
export interface Trees {
  /**
   * Runs `work` unless this tree is being changed already ("aborted"): a delete sweeps away what a create of the same tree builds.
   */
  alone<T>(name: string, work: () => Promise<T>): Promise<T>;
  /** Whether the finished tree exists. Throws "failed-precondition" when a link or file stands in its place. */
  has(name: string): Promise<boolean>;
  /** As `has`, but false for a link or file: for listings, which leave foreign things out. */
  isTree(name: string): Promise<boolean>;
  /** Names of everything in the folder of this sort, unchecked. Throws "unavailable" when the base folder is away. */
  names(): Promise<readonly string[]>;
  /**
   * Makes the tree appear complete or not at all: empty and at once, or filled by `fill` in a work folder and then renamed.
   * The caller knows that the tree is absent and its record is on disk.
   */
  place(name: string, fill: ((folder: string) => Promise<void>) | undefined): Promise<void>;
  /**
   * Makes the tree and its record disappear, then the folders that are empty now. A tree with content first moves to the work folder
   * in one step; `mark` makes sure that a record tells of it. Resolves when all bytes are gone, also those of interrupted calls.
   */
  remove(name: string, record: string | undefined, mark: () => Promise<unknown>, call: Call): Promise<void>;
  /** Removes what interrupted calls left of this tree in the work folder. Tells whether there was anything. */
  sweep(name: string, call: Call): Promise<boolean>;
  /** Undoes a failed `place`: what is half-built and the record, then empty folders. A tree that did appear stays. */
  abandon(name: string, record: string, call: Call): Promise<void>;
  /** Puts the names of the finished trees on stable storage. */
  sync(): Promise<void>;
}

export function treesOf(space: Space, sort: Sort): Trees {
  const { files, layout } = space;
  const root = layout.root(sort);
  const locks = new Locks();
  const ownWork = [layout.own, layout.work];

  const gone = async (folder: string): Promise<boolean> => {
    try {
      await files.removeFolder(folder);
      return true;
    } catch (error) {
      const errno = errnoOf(error) ?? "";
      if (errno === "ENOENT") return true;
      if ([...notEmpty, "EBUSY"].includes(errno)) return false;
      throw error;
    }
  };

  /** Removes the folders that the last tree of this sort leaves empty. Returns the folder that has changed last. */
  const tidy = async (): Promise<string> => {
    if (!(await gone(root))) return root;
    for (const folder of ownWork.toReversed()) await gone(folder);
    return layout.base;
  };

  /** Makes a new name in the root durable, and the root's own name when it is new. */
  const settle = async (freshRoot: boolean): Promise<void> => {
    await Promise.all(freshRoot ? [files.sync(root), files.sync(layout.base)] : [files.sync(root)]);
  };

  const discard = async (path: string, call: Call): Promise<void> => {
    if (!(await gone(path))) await removeTree(space, path, call);
  };

  const drop = async (record: string | undefined): Promise<void> => {
    if (record !== undefined) await unless(files.removeFile(record), "ENOENT", "ENOTDIR");
  };

  /** Takes the tree out of sight in one step. Returns where it is now: on a full disk, where it was. */
  const moveAway = async (name: string, mark: () => Promise<unknown>): Promise<string> => {
    const tree = layout.tree(sort, name);
    const away = layout.workTree(sort, name);
    try {
      await mark();
      await withFolders(space, ownWork, () => files.rename(tree, away));
      return away;
    } catch (error) {
      // Making space must not need any.
      if (["ENOSPC", "EDQUOT"].includes(errnoOf(error) ?? "")) return tree;
      throw error;
    }
  };

  const has = async (name: string): Promise<boolean> => {
    const entry = await files.entry(layout.tree(sort, name));
    if (entry === "other") throw notAFolder(space, layout.tree(sort, name));
    return entry === "folder";
  };

  /** Removes the tree at once when it is empty, as it is in one system call then. */
  const quick = async (name: string): Promise<"removed" | "absent" | "full"> => {
    const path = layout.tree(sort, name);
    try {
      await files.removeFolder(path);
      return "removed";
    } catch (error) {
      const errno = errnoOf(error) ?? "";
      if ((notEmpty as readonly string[]).includes(errno)) return "full";
      if (errno === "ENOENT") return "absent";
      if (errno === "ENOTDIR") throw notAFolder(space, path);
      throw error;
    }
  };

  const sweep = async (name: string, call: Call): Promise<boolean> => {
    const prefix = layout.workPrefix(sort, name);
    const left = (await unless(files.names(layout.work), "ENOENT")) ?? [];
    const mine = left.filter(entry => entry.startsWith(prefix));
    for (const entry of mine) {
      stillWanted(space, call);
      // Taken over first: whoever is still building it under the old name can no longer rename it into place.
      const taken = layout.workTree(sort, name);
      await unless(files.rename(`${layout.work}/${entry}`, taken), "ENOENT");
      await discard(taken, call);
    }
    return mine.length > 0;
  };

  return {
    alone: (name, work) => locks.hold([layout.tree(sort, name)], work),
    has,
    isTree: async name => (await files.entry(layout.tree(sort, name))) === "folder",
    sweep,
    async names() {
      const names = await unless(files.names(root), "ENOENT");
      if (names === undefined) await present(space);
      return names ?? [];
    },
    async place(name, fill) {
      const tree = layout.tree(sort, name);
      if (fill === undefined) {
        await settle(await withFolders(space, [root], () => files.makeFolder(tree, 0o755)));
        return;
      }
      const folder = layout.workTree(sort, name);
      await withFolders(space, ownWork, () => files.makeFolder(folder, 0o700));
      await fill(folder);
      // rename(2) would silently replace an empty folder.
      if (await has(name)) throw new CsiError("aborted", `${tree} appeared meanwhile; repeat the call`);
      await settle(await withFolders(space, [root], () => files.rename(folder, tree)));
    },
    async remove(name, record, mark, call) {
      const outcome = await quick(name);
      if (outcome === "absent") {
        await present(space);
        await sweep(name, call);
      }
      if (outcome === "full") {
        stillWanted(space, call);
        await discard(await moveAway(name, mark), call);
      }
      await drop(record);
      const changed = await tidy();
      // An empty folder that comes back after a power failure holds nothing; content that comes back would be held for ever.
      if (outcome !== "removed") await unless(files.sync(changed), "ENOENT");
    },
    async abandon(name, record, call) {
      if (await has(name)) return;
      await sweep(name, call);
      await drop(record);
      await tidy();
    },
    sync: () => files.sync(root),
  };
}
