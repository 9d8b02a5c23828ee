import { readdir, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { spawned } from "../spawned.ts";
import { runningGuests } from "./guests.ts";
import { cache, type Image, imageIn } from "./place.ts";

/** How long an image that nobody starts is kept, in milliseconds: other checkouts may still want it. */
const keptMs = 14 * 24 * 3_600_000;

/** Notes that an image is in use. */
export const markUsed = (image: Image): Promise<void> => utimes(image.finished, new Date(), new Date());

/**
 * Removes images that were left half-built and those not used for two weeks, each about 1 GB. Only for the holder of the build's
 * lock, because an image under way looks half-built too.
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
    // Files of an image are read-only, and rm(1) does not mind.
    if (Date.now() - used > keptMs) await spawned(["rm", "-rf", image.folder]);
  }
}
