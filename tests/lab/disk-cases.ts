import { expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { World } from "../serve/world.ts";
import { livesAsBlock, livesMounted, mounting, show } from "./disk-volume.ts";
import { type Made, unmountVolume } from "./rig.ts";

/** A protocol by which this machine shows disks to itself. */
export interface DiskServer {
  readonly world: () => World;
  /** Shows two zvols of 320 MiB while `work` uses them; `grow` makes the first one 640 MiB. */
  during(work: (grow: () => Promise<void>) => Promise<void>): Promise<void>;
  /** The first of them, reached by one way, and the second. */
  readonly volumes: readonly [Made, Made];
  /** How many sessions this machine has with them. */
  sessions(): Promise<number>;
}

/** One test takes so long at most, in milliseconds. */
export const limitMs = 600_000;

/** What disks do in the same way, whatever the protocol. */
export function diskCases({ world, during, volumes: [first, second], sessions }: DiskServer): void {
  test.each(["ext4", "xfs"])(
    "a disk with %s lives its life over one way",
    async fsType => {
      await during(grow => livesMounted(world(), { volume: first }, fsType, grow));
      expect(await sessions()).toBe(0);
    },
    limitMs,
  );

  test(
    "a disk lives its life as a block device",
    async () => {
      await during(grow => livesAsBlock(world(), { volume: first }, grow));
    },
    limitMs,
  );

  test(
    "two disks of one target share a session, and each goes alone",
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
