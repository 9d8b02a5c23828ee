import { expect } from "bun:test";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { VolumeCapability_AccessMode_Mode as Mode, VolumeCapabilitySchema } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { mebibytes, type World } from "../serve/world.ts";
import { foldersOf, type Made, type MountOptions, mountVolume, unmountVolume, writeWithFsGroup } from "./rig.ts";
import { run } from "./run.ts";

/** Mount access with a file system. */
export const mounting = (fsType: string, mode = Mode.SINGLE_NODE_WRITER) =>
  create(VolumeCapabilitySchema, { accessType: { case: "mount", value: { fsType } }, accessMode: { mode } });

/** Block access. */
const block = (mode = Mode.SINGLE_NODE_WRITER) =>
  create(VolumeCapabilitySchema, { accessType: { case: "block", value: {} }, accessMode: { mode } });

/** How a zvol is exported to nodes. */
export interface Shown {
  readonly volume: Made;
  readonly options?: MountOptions;
}

/** Volumes of the current test, so that a failed test leaves nothing to the next. */
const shown = new Map<string, Made>();

/** As mountVolume; `takeDown` undoes it. */
export async function show(world: World, volume: Made, options: MountOptions): Promise<string> {
  shown.set(volume.volumeId, volume);
  return await mountVolume(world, volume, options);
}

/** Removes what a test has left; success if there is nothing. */
export async function takeDown(world: World): Promise<void> {
  for (const volume of shown.values()) await unmountVolume(world, volume);
  shown.clear();
}

const bytesOf = async (path: string): Promise<bigint> =>
  BigInt(await run(["df", "--output=size", "-B1", path]).then(out => out.split("\n")[1] ?? "0"));

/** The life of a volume with a file system: written, unpublished, mounted by a node without records, expanded while in use. */
export async function livesMounted(
  world: World,
  { volume, options = {} }: Shown,
  fsType: string,
  grow: () => Promise<void>,
): Promise<void> {
  const all = { ...options, capability: mounting(fsType) };
  const path = await show(world, volume, all);
  await writeFile(join(path, "hello"), "from a pod");
  await writeWithFsGroup(path);
  expect(await show(world, volume, all)).toBe(path);
  const before = await bytesOf(path);
  await grow();
  await world.node(
    "nodeExpandVolume",
    { volumeId: volume.volumeId, volumePath: path, capacityRange: mebibytes(640) },
    120_000,
  );
  expect((await bytesOf(path)) * 10n).toBeGreaterThan(before * 15n);
  await unmountVolume(world, volume);
  // Like another node: no record and no session is left here.
  const again = await show(world, volume, all);
  expect(await readFile(join(again, "hello"), "utf8")).toBe("from a pod");
  await unmountVolume(world, volume);
  const reading = { ...options, capability: mounting(fsType, Mode.MULTI_NODE_READER_ONLY), readonly: true };
  const seen = await show(world, volume, reading);
  expect(await readFile(join(seen, "hello"), "utf8")).toBe("from a pod");
  await expect(writeFile(join(seen, "more"), "x")).rejects.toThrow("EROFS");
  await unmountVolume(world, volume);
}

/** The life of a block volume: written, measured and expanded through a device file. */
export async function livesAsBlock(
  world: World,
  { volume, options = {} }: Shown,
  grow: () => Promise<void>,
): Promise<void> {
  const all = { ...options, capability: block() };
  const path = await show(world, volume, all);
  expect((await run(["stat", "-c", "%F", path])).trim()).toBe("block special file");
  await run(["sh", "-c", 'printf "raw bytes" | dd of="$1" bs=512 seek=100 conv=sync,fsync oflag=direct', "sh", path]);
  expect(await show(world, volume, all)).toBe(path);
  await grow();
  await world.node(
    "nodeExpandVolume",
    { volumeId: volume.volumeId, volumePath: path, capacityRange: mebibytes(640) },
    120_000,
  );
  expect((await run(["blockdev", "--getsize64", path])).trim()).toBe(String(640 << 20));
  const { usage } = await world.node("nodeGetVolumeStats", { volumeId: volume.volumeId, volumePath: path });
  expect(usage.map(({ total }) => total)).toEqual([BigInt(640 << 20)]);
  await unmountVolume(world, volume);
  const reading = { ...options, capability: block(Mode.MULTI_NODE_READER_ONLY), readonly: true };
  const seen = await show(world, volume, reading);
  expect(await run(["dd", `if=${seen}`, "bs=512", "skip=100", "count=1", "status=none"])).toStartWith("raw bytes");
  const writing = run([
    "dd",
    "if=/dev/zero",
    `of=${seen}`,
    "bs=512",
    "count=1",
    "oflag=direct",
    "conv=notrunc,nocreat",
  ]);
  await expect(writing).rejects.toThrow();
  await unmountVolume(world, volume);
  expect(foldersOf(world, volume).target).toBe(path);
}
