import * as fs from "node:fs";
import { umask } from "node:process";
import { promisify } from "node:util";
import type { Slots } from "../../core/slots.ts";
import { withSlots } from "./by-server.ts";
import { type Entry, type Files, pooledFiles, unless } from "./files.ts";

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;

const fsync = promisify(fs.fsync);

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
async function sync(folder: string, slots: Slots): Promise<void> {
  const fd = fs.openSync(folder, "r");
  try {
    await slots.run(() => fsync(fd));
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * For a local disk: a look at one directory entry behind another look, and a change of one behind another change, are done at once;
 * the rest goes to the thread pool. One entry costs the kernel 2 to 30 µs, the way through the pool 20 to 50 µs more. The price: such
 * a step can wait for a running journal commit, which on a local disk takes milliseconds. A disk that is frozen (fsfreeze(8)) or
 * does not answer takes longer, and would hold up the whole process if it became so between two steps of one operation.
 * Never for a network file system.
 */
export function directFiles(slotsOf: (path: string) => Slots): Files {
  const pooled = withSlots(pooledFiles, slotsOf);
  return {
    ...pooled,
    entry: (path, step) => (step === "next" ? unless(entry(path), "ENOTDIR") : pooled.entry(path, step)),
    makeFolder: async (path, mode, step) =>
      step === "next" ? void fs.mkdirSync(path, { mode }) : pooled.makeFolder(path, mode, step),
    makeExactFolder: async (path, mode) => makeExact(path, mode),
    removeFolder: async (path, step) => (step === "next" ? fs.rmdirSync(path) : pooled.removeFolder(path, step)),
    removeFile: async (path, step) => (step === "next" ? fs.unlinkSync(path) : pooled.removeFile(path, step)),
    sync: folder => sync(folder, slotsOf(folder)),
    chmod: async (path, mode) => changeMode(path, mode),
  };
}
