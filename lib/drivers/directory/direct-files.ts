import * as fs from "node:fs";
import { umask } from "node:process";
import { promisify } from "node:util";
import { type Entry, type Files, pooledFiles, unless, writeFlags } from "./files.ts";

const fsync = promisify(fs.fsync);

/** Runs `work` on an open file and closes it whatever happens. */
async function opened(path: string, flags: string, work: (fd: number) => void): Promise<void> {
  const fd = fs.openSync(path, flags, 0o600);
  try {
    work(fd);
    await fsync(fd);
  } finally {
    fs.closeSync(fd);
  }
}

async function entry(path: string): Promise<Entry | undefined> {
  const stats = fs.lstatSync(path, { throwIfNoEntry: false });
  return stats && (stats.isDirectory() ? "folder" : "other");
}

/**
 * mkdir(2) takes the umask away from the mode. It is off only during this one system call, which nothing can come between.
 * A default ACL of the folder above takes more away (acl(5)); only then the mode is set afterwards.
 */
function makeExact(path: string, mode: number): void {
  const before = umask(0);
  try {
    fs.mkdirSync(path, { mode });
  } finally {
    umask(before);
  }
  if ((fs.lstatSync(path).mode & 0o777) !== mode) fs.chmodSync(path, mode);
}

/**
 * For a local disk: what touches one directory entry is done at once; what waits for the disk (fsync) or grows with the number
 * of entries goes to the thread pool. One entry costs the kernel 2 to 30 µs, the way through the pool 20 to 50 µs more. The price:
 * such a step can wait for a running journal commit, which on a local disk takes milliseconds, and for a disk that is frozen
 * (fsfreeze(8)) or breaking. Never for a network file system.
 */
export const directFiles: Files = {
  ...pooledFiles,
  entry: path => unless(entry(path), "ENOTDIR"),
  makeFolder: async (path, mode) => void fs.mkdirSync(path, { mode }),
  makeExactFolder: async (path, mode) => makeExact(path, mode),
  removeFolder: async path => fs.rmdirSync(path),
  removeFile: async path => fs.unlinkSync(path),
  rename: async (from, to) => fs.renameSync(from, to),
  writeText: (path, text, how) => opened(path, writeFlags[how], fd => fs.writeFileSync(fd, text)),
  sync: folder => opened(folder, "r", () => undefined),
  chmod: async (path, mode) => fs.chmodSync(path, mode),
};
