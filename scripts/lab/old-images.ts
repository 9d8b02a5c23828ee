import { readdir, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { spawned } from "../spawned.ts";
import { runningGuests } from "./guests.ts";
import { cache, type Image, imageIn } from "./place.ts";

/** How long an unused image is kept for other checkouts, in milliseconds. */
const keptMs = 14 * 24 * 3_600_000;

/** Records that an image is in use. */
export const markUsed = (image: Image): Promise<void> => utimes(image.finished, new Date(), new Date());

/**
 * Removes unfinished images and those not used for two weeks, each about 1 GB. Requires the build lock,
 * because an image being built is unfinished too.
 */
export async function removeOldImages(): Promise<void> {
  const running = (await runningGuests()).map(guest => guest.image);
  for (const name of await readdir(cache)) {
    const image = imageIn(join(cache, name));
    if (!name.startsWith("image-") || running.includes(image.folder)) continue;
    const used = await stat(image.finished).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    );
    // rm(1) also removes the read-only files of an image.
    if (Date.now() - used > keptMs) await spawned(["rm", "-rf", image.folder]);
  }
}
