import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { below } from "../check/below.ts";
import { cacheFolder, spawned } from "../spawned.ts";
import { machineShape } from "./machine.ts";

/** The recipe of the machine's disk: package lists, files and scripts that run in it. */
export const recipe = join(import.meta.dirname, "image");

/** Images and running guests, outside the checkout, so that all checkouts share an image. */
export const cache = cacheFolder("csimux-lab");

/** The paths of one image. It is complete if `finished` exists. */
export interface Image {
  readonly folder: string;
  readonly finished: string;
  readonly key: string;
}

/** The folder of a running guest: disks, console and owner. */
export const guestFolder = (number: number): string => join(cache, "guests", String(number));

/** The paths of the image in a folder. */
export const imageIn = (folder: string): Image => ({
  folder,
  finished: join(folder, "finished"),
  key: join(folder, "id_ed25519"),
});

const recipeFiles = (): readonly string[] => below(recipe, "files only").map(name => join(recipe, name));

/**
 * The image of this checkout. Any change of the recipe, the machine's hardware or QEMU, which can only resume machines that
 * the same version has frozen, results in a new image.
 */
export async function wantedImage(): Promise<Image> {
  const hash = createHash("sha256").update(machineShape());
  hash.update((await spawned(["qemu-system-x86_64", "--version"])).stdout);
  for (const file of recipeFiles()) hash.update(`\0${file.slice(recipe.length)}\0`).update(await readFile(file));
  return imageIn(join(cache, `image-${hash.digest("hex").slice(0, 16)}`));
}
