import { spawn } from "node:child_process";
import { once } from "node:events";

/**
 * Does `work` while holding a lock on a file that all checkouts and processes of this machine respect. The kernel lets go of
 * it when the holder ends in whatever way (flock(2)): the holder is a `cat` that lives as long as its standard input.
 */
export async function withLock<T>(file: string, work: () => Promise<T>): Promise<T> {
  const holder = spawn("flock", [file, "sh", "-c", "echo locked; exec cat"], { stdio: ["pipe", "pipe", "inherit"] });
  try {
    const locked = await Promise.race([
      once(holder.stdout, "data").then(() => true),
      once(holder, "close").then(() => false),
    ]);
    if (!locked) throw new Error(`could not lock ${file}`);
    return await work();
  } finally {
    holder.stdin.end();
  }
}
