import * as fs from "node:fs";
import { umask } from "node:process";
import { promisify } from "node:util";
import type { Semaphore } from "../../core/semaphore.ts";
import { withSlots } from "./by-server.ts";
import { type FileKind, type Files, pooledFiles, unless } from "./files.ts";

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;

const fsync = promisify(fs.fsync);

async function entry(path: string): Promise<FileKind | undefined> {
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
  if ((fs.lstatSync(path).mode & 0o777) !== mode) changeMode(path, mode);
}

/** As Files.chmod. */
function changeMode(path: string, mode: number): void {
  const fd = fs.openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  try {
    fs.fchmodSync(fd, mode);
  } finally {
    fs.closeSync(fd);
  }
}

/** Puts a folder on stable storage; opening and closing it is done at once. */
async function sync(folder: string, slots: Semaphore): Promise<void> {
  const fd = fs.openSync(folder, "r");
  try {
    await slots.run(() => fsync(fd));
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * For a local disk: a look at one directory entry behind another look is done at once, as it costs the kernel 2 µs, and the way through
 * the thread pool 20 to 50 µs more. What changes a folder goes to the pool, because it can wait for a running journal commit; but for
 * the one folder whose mode must be exact, as nothing else may run while the umask is off. A disk that is frozen (fsfreeze(8)) or does
 * not answer would hold up the whole process there if it became so between two steps of one operation. Never for a network file system.
 */
export function directFiles(slotsOf: (path: string) => Semaphore): Files {
  const pooled = withSlots(pooledFiles, slotsOf);
  return {
    ...pooled,
    entry: (path, step) => (step === "next" ? unless(entry(path), "ENOTDIR") : pooled.entry(path, step)),
    makeExactFolder: async (path, mode) => makeExact(path, mode),
    sync: folder => sync(folder, slotsOf(folder)),
    chmod: async (path, mode) => changeMode(path, mode),
  };
}
