import { execFileSync } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { isHostRoot } from "../root.ts";

/** A file system whose server never says a word (fuse(4)): every call on it waits. Answers how to end that. */
export function mountSilence(folder: string): () => void {
  const device = openSync("/dev/fuse", "r+");
  const options = "fd=3,rootmode=40000,user_id=0,group_id=0";
  execFileSync("mount", ["-i", "-t", "fuse", "-o", options, "silence", folder], {
    stdio: ["ignore", "ignore", "pipe", device],
  });
  return () => {
    execFileSync("umount", ["--lazy", folder]);
    closeSync(device);
  };
}

/** Containers may have the device and not the right to open it; users may open it and not mount what it serves. */
export function canMountFuse(): boolean {
  if (!isHostRoot) return false;
  try {
    closeSync(openSync("/dev/fuse", "r+"));
    return true;
  } catch {
    return false;
  }
}
