import { execFileSync, spawnSync } from "node:child_process";
import { mkdir, truncate, writeFile } from "node:fs/promises";
import { isHostRoot } from "../../root.ts";

/** Whether file systems in files can be made and mounted here. */
export const canMountImages =
  isHostRoot && spawnSync("losetup", ["--find"]).status === 0 && spawnSync("mkfs.ext4", ["-V"]).status === 0;

/** Makes an ext4 of 32 MiB in a new file. */
export async function makeImage(image: string): Promise<void> {
  await writeFile(image, "");
  await truncate(image, 32 << 20);
  execFileSync("mkfs.ext4", ["-q", image]);
}

/** Mounts the file system in a file on a new folder, with these options (mount(8), ext4(5)). */
export async function mountImage(image: string, at: string, ...options: readonly string[]): Promise<void> {
  await mkdir(at);
  execFileSync("mount", ["-o", ["loop", ...options].join(), image, at]);
}
