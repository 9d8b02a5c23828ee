import { truncate, writeFile } from "node:fs/promises";
import type { World } from "../../serve/world.ts";
import { run, waitFor } from "../run.ts";

/** Waits until exactly these reasons are reported. */
export const until = (
  what: string,
  look: () => Promise<readonly string[]>,
  ...wanted: readonly string[]
): Promise<true> => {
  let seen: readonly string[] = [];
  const matches = async () => {
    seen = await look().catch((error: unknown) => [String(error)]);
    return seen.join() === wanted.join() ? (true as const) : undefined;
  };
  return waitFor(`${what}: ${wanted.join(" and ") || "nothing wrong"}`, matches).catch(error => {
    throw new Error(`${error}; it is ${seen.join() || "nothing"}`);
  });
};

/** The health reasons of a volume or a storage system, requested as a CO does. */
export const looksAt = (world: () => World) => ({
  ofVolume: async (volumeId: string): Promise<readonly string[]> => {
    const { volumeHealth } = await world().controller("controllerGetVolumeHealth", { volumeId }, 60_000);
    return (volumeHealth?.healthStatuses ?? []).map(({ reason }) => reason);
  },
  onNode: async (volumeId: string): Promise<readonly string[]> => {
    const { volumeHealth } = await world().node("nodeGetVolumeHealth", { volumeId }, 60_000);
    return (volumeHealth?.healthStatuses ?? []).map(({ reason }) => reason);
  },
  storages: async (): Promise<readonly string[]> =>
    (await world().node("nodeGetStorageHealth", {}, 60_000)).backendHealth.map(({ reason }) => reason),
});

/** A disk on a file that can return errors (dm-error of Linux). */
export interface FailingDisk {
  readonly path: string;
  fail(): Promise<void>;
  mend(): Promise<void>;
  remove(): Promise<void>;
}

/** Creates such a disk on a new file; the size is in MiB. */
export async function failingDisk(name: string, file: string, mib = 64): Promise<FailingDisk> {
  await writeFile(file, "");
  await truncate(file, mib << 20);
  const loop = (await run(["losetup", "--find", "--show", file])).trim();
  const sectors = (mib << 20) / 512;
  const good = `0 ${sectors} linear ${loop} 0`;
  const swap = async (table: string): Promise<void> => {
    await run(["dmsetup", "suspend", "--noflush", "--nolockfs", name]);
    await run(["dmsetup", "load", name, "--table", table]);
    await run(["dmsetup", "resume", name]);
  };
  await run(["dmsetup", "create", name, "--table", good]);
  return {
    path: `/dev/mapper/${name}`,
    fail: () => swap(`0 ${sectors} error`),
    mend: () => swap(good),
    remove: async () => {
      await run(["dmsetup", "remove", "--retry", name]);
      await run(["losetup", "-d", loop]);
    },
  };
}
