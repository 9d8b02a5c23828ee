import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { spawned } from "../spawned.ts";
import { machineShape } from "./machine.ts";

/** Everything that shapes the machine's disk: lists of packages, files and the scripts that run in it. */
export const recipe = join(import.meta.dirname, "image");

/** Holds images and running guests, outside every checkout, so that all of them share one image. */
export const cache = join(process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "csimux-lab");

/** Where one image is kept. The folder is complete when `finished` exists. */
export interface Image {
  readonly folder: string;
  readonly finished: string;
  readonly key: string;
}

/** The folder of a running guest: its disks, its console and who started it. */
export const guestFolder = (number: number): string => join(cache, "guests", String(number));

/** The parts of the image in a folder. */
export const imageIn = (folder: string): Image => ({
  folder,
  finished: join(folder, "finished"),
  key: join(folder, "id_ed25519"),
});

async function recipeFiles(): Promise<readonly string[]> {
  const entries = await readdir(recipe, { recursive: true, withFileTypes: true });
  return entries
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath, entry.name))
    .sort();
}

/**
 * The image that this checkout wants. A change of the recipe, of the machine's hardware or of QEMU, whose frozen machines only
 * the same version is sure to continue, asks for another one.
 */
export async function wantedImage(): Promise<Image> {
  const hash = createHash("sha256").update(machineShape());
  hash.update((await spawned(["qemu-system-x86_64", "--version"])).stdout);
  for (const file of await recipeFiles()) hash.update(`\0${file.slice(recipe.length)}\0`).update(await readFile(file));
  return imageIn(join(cache, `image-${hash.digest("hex").slice(0, 16)}`));
}
