import { spawn } from "node:child_process";
import { once } from "node:events";

/**
 * Does `work` while holding a lock on a file, for all checkouts and processes of this machine. The kernel releases
 * it when the holder ends (flock(2)): a `cat`, which ends with its standard input.
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
