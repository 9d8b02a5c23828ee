import { expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { World } from "../serve/world.ts";
import { livesAsBlock, livesMounted, mounting, show } from "./disk-volume.ts";
import { type Made, unmountVolume } from "./rig.ts";

/** A protocol by which this machine exports disks to itself. */
export interface DiskServer {
  readonly world: () => World;
  /** Exports two zvols of 320 MiB while `work` uses them; `grow` expands the first one to 640 MiB. */
  during(work: (grow: () => Promise<void>) => Promise<void>): Promise<void>;
  /** The first one, with a single path, and the second one. */
  readonly volumes: readonly [Made, Made];
  /** The number of this machine's sessions with them. */
  sessions(): Promise<number>;
}

/** The time limit of one test, in milliseconds. */
export const limitMs = 600_000;

/** Tests of disks for every protocol. */
export function diskCases({ world, during, volumes: [first, second], sessions }: DiskServer): void {
  test.each(["ext4", "xfs"])(
    "the life of a disk with %s over one path",
    async fsType => {
      await during(grow => livesMounted(world(), { volume: first }, fsType, grow));
      expect(await sessions()).toBe(0);
    },
    limitMs,
  );

  test(
    "the life of a disk as a block device",
    async () => {
      await during(grow => livesAsBlock(world(), { volume: first }, grow));
    },
    limitMs,
  );

  test(
    "two disks of one target share a session, and are removed independently",
    async () => {
      await during(async () => {
        const options = { capability: mounting("ext4") };
        await Promise.all([show(world(), first, options), show(world(), second, options)]);
        expect(await sessions()).toBe(1);
        await unmountVolume(world(), first);
        const path = await show(world(), second, options);
        await writeFile(join(path, "hello"), "still there");
        await unmountVolume(world(), second);
        expect(await sessions()).toBe(0);
      });
    },
    limitMs,
  );
}
