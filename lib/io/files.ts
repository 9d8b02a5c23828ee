import { closeSync, fchmod as fchmodWith, fsync as fsyncWith, open as openWith, readFileSync } from "node:fs";
import * as fs from "node:fs/promises";
import { promisify } from "node:util";
import { errnoOf } from "../core/errors.ts";
import type { Semaphore } from "../core/semaphore.ts";
import { fileThreads } from "./file-threads.ts";
import { memoizeByKey } from "./script.ts";
import { sharedNext } from "./shared-next.ts";

/** What is at a path; a symbolic link is "other", whatever it points to. */
export type FileKind = "folder" | "other";

/** Identity and age of a folder: equal `mark`s mean the same folder, not a later one of the same name. */
export interface FolderFacts {
  readonly kind: FileKind;
  readonly mark: string;
  readonly changedAt: Date;
}

export interface FileSystemFacts {
  /** The file system's magic number (statfs(2) `f_type`). */
  readonly type: number;
  readonly availableBytes: bigint;
}

/**
 * The file system calls of drivers with volumes in folders, so that tests can interrupt after each of them.
 * They reject with Node's errno errors; paths are absolute.
 */
export interface Files {
  /** Does not follow a link in the last component. Undefined if nothing is there. */
  entry(path: string): Promise<FileKind | undefined>;
  /** Facts of what exists; does not follow a link in the last component. */
  facts(path: string): Promise<FolderFacts>;
  /** The permissions are `mode` less the umask. */
  makeFolder(path: string, mode: number): Promise<void>;
  removeFolder(path: string): Promise<void>;
  removeFile(path: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** A second name for a file. Rejects with EEXIST if the name is taken (link(2)). */
  link(file: string, name: string): Promise<void>;
  /** The path with all links resolved (realpath(3)). */
  realPath(path: string): Promise<string>;
  /** Names in no particular order. */
  names(folder: string): Promise<readonly string[]>;
  /**
   * Undefined if the file does not exist. With `mostBytes`, rejects with EFBIG for a longer file, and with EISDIR at once for a pipe, a
   * device or a folder.
   */
  readText(path: string, mostBytes?: number): Promise<string | undefined>;
  /** On stable storage when it resolves. "create" rejects with EEXIST if the file exists. */
  writeText(path: string, text: string, how: "create" | "replace" | "append"): Promise<void>;
  /** Puts the names in a folder on stable storage; syncing its files does not guarantee that (fsync(2)). */
  sync(folder: string): Promise<void>;
  /** Changes a folder that was just made. Rejects with ELOOP or ENOTDIR if a link has replaced it. */
  chmod(path: string, mode: number): Promise<void>;
  /** Undefined keeps that owner. Does not follow links. */
  chown(path: string, user: number | undefined, group: number | undefined): Promise<void>;
  /** Rejects unless this process may read, write and enter the folder. */
  usable(folder: string): Promise<void>;
  statfs(path: string): Promise<FileSystemFacts>;
}

/** `undefined` instead of a rejection with one of these errno names. */
export function unless<T>(work: Promise<T>, ...names: readonly string[]): Promise<T | undefined> {
  return work.catch((error: unknown) => {
    if (names.includes(errnoOf(error) ?? "")) return undefined;
    throw error;
  });
}

const writeFlags = { create: "wx", replace: "w", append: "a" } as const;

const { O_DIRECTORY, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** Keeps an owner (chown(2)). */
const keep = -1;

const open = promisify(openWith);
const fsync = promisify(fsyncWith);
const fchmod = promisify(fchmodWith);

/** Opens a folder for `work`. Closing it never waits: there is nothing to write back. */
async function withFolder(path: string, flags: number, work: (folder: number) => Promise<unknown>): Promise<void> {
  const folder = await open(path, flags);
  try {
    await work(folder);
  } finally {
    closeSync(folder);
  }
}

// Some network file systems cannot sync a folder, because they never cache its names (EINVAL, fsync(2)).
const sync = (path: string): Promise<void> => withFolder(path, O_RDONLY, folder => unless(fsync(folder), "EINVAL"));

const chmod = (path: string, mode: number): Promise<void> =>
  withFolder(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, folder => fchmod(folder, mode));

async function readText(path: string, mostBytes?: number): Promise<string | undefined> {
  // The kernel produces these from memory, so reading returns at once even while a disk hangs.
  const text = path.startsWith("/proc/") ? async () => readFileSync(path, "utf8") : () => fs.readFile(path, "utf8");
  return unless(mostBytes === undefined ? text() : readShort(path, mostBytes), "ENOENT", "ENOTDIR");
}

const refused = (code: string, path: string): Error => Object.assign(new Error(`${code}: ${path}`), { code });

async function readShort(path: string, mostBytes: number): Promise<string> {
  const file = await fs.open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  try {
    if (!(await file.stat()).isFile()) throw refused("EISDIR", path);
    const buffer = Buffer.alloc(mostBytes + 1);
    let filled = 0;
    for (;;) {
      const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, null);
      filled += bytesRead;
      if (filled > mostBytes) throw refused("EFBIG", path);
      if (bytesRead === 0) return buffer.toString("utf8", 0, filled);
    }
  } finally {
    await file.close();
  }
}

const kindOf = (stats: { isDirectory(): boolean }): FileKind => (stats.isDirectory() ? "folder" : "other");

const unbounded: Files = {
  entry: path => unless(fs.lstat(path).then(kindOf), "ENOENT", "ENOTDIR"),
  async facts(path) {
    const stats = await fs.lstat(path, { bigint: true });
    const { dev, ino, birthtimeNs, ctime } = stats;
    return { kind: kindOf(stats), mark: `${dev}:${ino}:${birthtimeNs}`, changedAt: ctime };
  },
  makeFolder: async (path, mode) => void (await fs.mkdir(path, { mode })),
  removeFolder: path => fs.rmdir(path),
  removeFile: path => fs.unlink(path),
  rename: (from, to) => fs.rename(from, to),
  link: (file, name) => fs.link(file, name),
  realPath: path => fs.realpath(path),
  names: folder => fs.readdir(folder),
  readText,
  writeText: (path, text, how) => fs.writeFile(path, text, { flag: writeFlags[how], mode: 0o600, flush: true }),
  sync,
  chmod,
  chown: (path, user, group) => fs.lchown(path, user ?? keep, group ?? keep),
  usable: folder => fs.access(folder, fs.constants.R_OK | fs.constants.W_OK | fs.constants.X_OK),
  async statfs(path) {
    const { type, bavail, bsize } = await fs.statfs(path, { bigint: true });
    return { type: Number(BigInt.asUintN(32, type)), availableBytes: bavail * bsize };
  },
};

type Verb = (path: string, ...more: readonly unknown[]) => Promise<unknown>;

/** The files of file systems with a bounded number of calls at once: one that does not answer holds threads of the process. */
function filesWith(slotsOf: (path: string) => Semaphore): Files {
  const bounded = Object.entries(unbounded as unknown as Readonly<Record<string, Verb>>).map(([name, verb]) => {
    const inSlot: Verb = (path, ...more) => slotsOf(path).run(() => verb(path, ...more));
    return [name, inSlot] as const;
  });
  const files = Object.fromEntries(bounded) as unknown as Files;
  return { ...files, sync: sharedNext(sync, slotsOf) };
}

/** The files of this machine, bounded per device. */
export const localFiles: Files = filesWith(path => fileThreads.on(path));

/** The files on the shares of `server`, bounded for all of its shares together. */
export const filesOn = (server: string): Files =>
  onServers(server, () => filesWith(() => fileThreads.onServer(server)));

/** One for each server, because a process may have thousands of connections. */
const onServers = memoizeByKey();
