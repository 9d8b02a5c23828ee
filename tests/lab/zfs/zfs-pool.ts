import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { mebibytes, type World } from "../../serve/world.ts";
import { persistently } from "../persistently.ts";
import type { Made } from "../rig.ts";
import { run } from "../run.ts";

/** The source of a volume. */
export type From = { readonly snapshot: string } | { readonly volume: string };

const sourceOf = (from: From) =>
  "snapshot" in from
    ? { type: { case: "snapshot" as const, value: { snapshotId: from.snapshot } } }
    : { type: { case: "volume" as const, value: { volumeId: from.volume } } };

/** Options of a new volume. */
export interface Wish {
  readonly from?: From;
  /** Size in MiB; 64 if absent. */
  readonly size?: number;
  readonly parameters?: Readonly<Record<string, string>>;
}

/** Creates a volume and retries like the provisioner. */
export async function makeVolume(world: World, connection: string, name: string, wish: Wish = {}): Promise<Made> {
  const { from, size = 64, parameters = {} } = wish;
  const more = {
    capacityRange: mebibytes(size) as never,
    parameters: { connection, ...parameters },
    ...(from && { volumeContentSource: sourceOf(from) }),
  };
  const { volume } = await persistently(() => world.create(name, connection, more, 120_000));
  if (!volume) throw new Error("no volume");
  return volume;
}

/** Deletes a volume and retries like the provisioner. */
export const deleteVolume = (world: World, volumeId: string) =>
  persistently(() => world.controller("deleteVolume", { volumeId }, 120_000));

/** Takes a snapshot; returns its id. */
export async function makeSnapshot(
  world: World,
  sourceVolumeId: string,
  name: string,
  parameters: Readonly<Record<string, string>> = {},
): Promise<string> {
  const request = { sourceVolumeId, name, parameters: { ...parameters } };
  const { snapshot } = await persistently(() => world.controller("createSnapshot", request, 120_000));
  return snapshot?.snapshotId ?? "";
}

export const deleteSnapshot = (world: World, snapshotId: string) =>
  persistently(() => world.controller("deleteSnapshot", { snapshotId }, 120_000));

/** All datasets and snapshots at and below a dataset, by relative name; empty if it does not exist. */
export async function poolBelow(dataset: string): Promise<readonly string[]> {
  const argv = ["sh", "-c", 'zfs list -H -t all -o name -s name -r "$1" 2>/dev/null || :', "list", dataset] as const;
  const names = (await run(argv)).split("\n").filter(name => name !== "");
  return names.map(name => name.slice(dataset.length)).filter(name => name !== "");
}

/** The digest of a file's content. */
export const digestOf = async (path: string): Promise<string> =>
  createHash("sha256")
    .update(await readFile(path))
    .digest("hex");

/** The size of the file system of a path, in bytes. */
export const roomOf = async (path: string): Promise<number> =>
  Number((await run(["df", "--output=size", "-B1", path])).split("\n")[1] ?? "0");
