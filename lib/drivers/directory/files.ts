import * as fs from "node:fs/promises";
import { errnoOf } from "../../core/errors.ts";

/** What stands at a path; a symbolic link is "other", whatever it points to. */
export type FileKind = "folder" | "other";

/** Identity and age of a folder: equal `mark`s mean the same folder, not a later one of the same name. */
export interface FolderFacts {
  readonly mark: string;
  readonly changedAt: Date;
}

export interface FileSystemFacts {
  /** The file system's magic number (statfs(2) `f_type`). */
  readonly type: number;
  readonly availableBytes: bigint;
}

/** Whether a look may be the first step of its operation, or comes right behind another: then the disk is known to answer. */
export type Step = "first" | "next";

/**
 * The verbs on a file system that this family is made of, so that tests can interrupt after each of them.
 * All of them reject with Node's errno errors; paths are absolute.
 */
export interface Files {
  /** Follows no link at the last component. Undefined when nothing is there. */
  entry(path: string, step: Step): Promise<FileKind | undefined>;
  /** Facts of an existing folder. */
  facts(path: string): Promise<FolderFacts>;
  /** The permissions are `mode` less the umask. */
  makeFolder(path: string, mode: number): Promise<void>;
  /**
   * Makes a folder that has exactly these permissions (at most 0777) from the moment it exists; always the next step behind
   * another. Absent where that is not possible.
   */
  makeExactFolder?(path: string, mode: number): Promise<void>;
  removeFolder(path: string): Promise<void>;
  removeFile(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** The path with every link in it resolved (realpath(3)). */
  realPath(path: string): Promise<string>;
  /** Names in no particular order. */
  names(folder: string): Promise<readonly string[]>;
  /** Undefined when there is no such file. */
  readText(path: string): Promise<string | undefined>;
  /** On stable storage when it resolves. "create" rejects with EEXIST when the file is there. */
  writeText(path: string, text: string, how: "create" | "replace" | "append"): Promise<void>;
  /** Puts the names in a folder on stable storage, which syncing the files in it does not promise (fsync(2)). */
  sync(folder: string): Promise<void>;
  /** Of a folder that was just made. Rejects with ELOOP or ENOTDIR when a link is in its place. */
  chmod(path: string, mode: number): Promise<void>;
  /** Undefined leaves that half as it is. Does not follow links. */
  chown(path: string, user: number | undefined, group: number | undefined): Promise<void>;
  /** Rejects unless this process may read, write and enter the folder. */
  usable(folder: string): Promise<void>;
  statfs(path: string): Promise<FileSystemFacts>;
}

/** `undefined` instead of a rejection with one of these errno names. */
export async function unless<T>(work: Promise<T>, ...names: readonly string[]): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (names.includes(errnoOf(error) ?? "")) return undefined;
    throw error;
  }
}

/** Open flags of the three ways of writing. */
const writeFlags = { create: "wx", replace: "w", append: "a" } as const;

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;

/** -1 leaves an owner unchanged (chown(2)). */
const keep = -1;

/** Every verb in the thread pool: for file systems whose server may be slow or away. */
export const pooledFiles: Files = {
  async entry(path) {
    const stats = await unless(fs.lstat(path), "ENOENT", "ENOTDIR");
    return stats && (stats.isDirectory() ? "folder" : "other");
  },
  async facts(path) {
    const { dev, ino, birthtimeNs, ctime } = await fs.lstat(path, { bigint: true });
    return { mark: `${dev}:${ino}:${birthtimeNs}`, changedAt: ctime };
  },
  makeFolder: async (path, mode) => void (await fs.mkdir(path, { mode })),
  removeFolder: path => fs.rmdir(path),
  removeFile: path => fs.unlink(path),
  rename: (from, to) => fs.rename(from, to),
  realPath: path => fs.realpath(path),
  names: folder => fs.readdir(folder),
  readText: path => unless(fs.readFile(path, "utf8"), "ENOENT", "ENOTDIR"),
  writeText: (path, text, how) => fs.writeFile(path, text, { flag: writeFlags[how], mode: 0o600, flush: true }),
  async sync(folder) {
    const handle = await fs.open(folder, "r");
    try {
      // Some network file systems refuse to sync a folder, because they never keep its names back (EINVAL, fsync(2)).
      await unless(handle.sync(), "EINVAL");
    } finally {
      await handle.close();
    }
  },
  async chmod(path, mode) {
    const handle = await fs.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    try {
      await handle.chmod(mode);
    } finally {
      await handle.close();
    }
  },
  chown: (path, user, group) => fs.lchown(path, user ?? keep, group ?? keep),
  usable: folder => fs.access(folder, fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK),
  async statfs(path) {
    const { type, bavail, bsize } = await fs.statfs(path, { bigint: true });
    return { type: Number(BigInt.asUintN(32, type)), availableBytes: bavail * bsize };
  },
};
