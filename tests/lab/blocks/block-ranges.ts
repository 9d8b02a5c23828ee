import { SnapshotMetadata } from "../../../lib/csi/gen/csi/v1/csi_pb.ts";
import type { BlockRange } from "../../../lib/drivers/driver.ts";
import { connectTo, stream } from "../../csi/rig.ts";
import type { World } from "../../serve/world.ts";

/** A list of blocks as the CSI socket answers it. */
export interface AnsweredBlocks {
  readonly code: number;
  readonly details: string;
  readonly capacity: number;
  readonly ranges: readonly BlockRange[];
}

/** Asks for the blocks of a snapshot or, with `base`, for those that were changed since that one. */
export async function blocksOf(world: World, snapshot: string, base?: string, from = 0n): Promise<AnsweredBlocks> {
  const client = connectTo(`unix:${world.sandbox.socket}`);
  const { getMetadataAllocated, getMetadataDelta } = SnapshotMetadata.method;
  const { parts, ended } =
    base === undefined
      ? stream(client, getMetadataAllocated, { snapshotId: snapshot, startingOffset: from })
      : stream(client, getMetadataDelta, { baseSnapshotId: base, targetSnapshotId: snapshot, startingOffset: from });
  try {
    const { code, details } = await ended;
    const ranges = parts.flatMap(({ blockMetadata }) =>
      blockMetadata.map(({ byteOffset, sizeBytes }) => ({ offset: byteOffset, bytes: sizeBytes })),
    );
    return { code, details, capacity: Number(parts[0]?.volumeCapacityBytes ?? 0n), ranges };
  } finally {
    client.close();
  }
}

/** What a backup tool makes of an earlier image and the blocks of a later one. */
export function restored(base: Buffer, target: Buffer, { capacity, ranges }: AnsweredBlocks): Buffer {
  const image = Buffer.alloc(capacity);
  base.copy(image);
  for (const { offset, bytes } of ranges) target.copy(image, Number(offset), Number(offset), Number(offset + bytes));
  return image;
}

/** The sum of the ranges, in bytes. */
export const namedBytes = ({ ranges }: AnsweredBlocks): number =>
  ranges.reduce((sum, { bytes }) => sum + Number(bytes), 0);
