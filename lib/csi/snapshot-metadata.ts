import type { ServiceImpl } from "@connectrpc/connect";
import type { Call } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import type { BlockRange } from "../drivers/driver.ts";
import type { BlocksRequest, SnapshotMetadata as RoutedMetadata } from "../mux/snapshots.ts";
import { required } from "./convert.ts";
import { BlockMetadataType, type SnapshotMetadata } from "./gen/csi/v1/csi_pb.ts";
import type { Instrumented } from "./instrument.ts";

/** The parts of the SnapshotMetadata service. */
export interface SnapshotMetadataParts {
  readonly snapshotMetadata: Pick<RoutedMetadata, "ranges">;
}

/** The most ranges in one message, some 80 KiB. Clients refuse messages of more than 4 MiB by default. */
const mostRanges = 4096;

/** A request for a list, as both methods have it. */
interface Asked {
  readonly startingOffset: bigint;
  readonly maxResults: number;
}

const wireRange = ({ offset, bytes }: BlockRange) => ({ byteOffset: offset, sizeBytes: bytes });

/**
 * The SnapshotMetadata service. Ranges are joined where they are adjacent, and so are of different lengths: one fixed length would be that of a
 * block, with a thousand times as many ranges for the same data. Even an empty list is a message, because only messages have the size.
 */
export function snapshotMetadataService({
  snapshotMetadata,
}: SnapshotMetadataParts): Instrumented<ServiceImpl<typeof SnapshotMetadata>> {
  async function* messages({ startingOffset, maxResults }: Asked, wanted: Omit<BlocksRequest, "from">, call: Call) {
    if (maxResults < 0) throw new CsiError("invalid-argument", "max_results is negative");
    if (startingOffset < 0n) throw new CsiError("out-of-range", "starting_offset is negative");
    const most = maxResults === 0 ? mostRanges : Math.min(maxResults, mostRanges);
    const common = { blockMetadataType: BlockMetadataType.VARIABLE_LENGTH };
    let capacity = 0n;
    let isEmpty = true;
    for await (const part of snapshotMetadata.ranges({ ...wanted, from: startingOffset }, call)) {
      capacity = part.capacity;
      for (let at = 0; at < part.ranges.length; at += most) {
        isEmpty = false;
        const blockMetadata = part.ranges.slice(at, at + most).map(wireRange);
        yield { ...common, volumeCapacityBytes: capacity, blockMetadata };
      }
    }
    if (isEmpty) yield { ...common, volumeCapacityBytes: capacity };
  }

  return {
    getMetadataAllocated(request, call) {
      const snapshot = required(request.snapshotId, "snapshot_id");
      return messages(request, { snapshot, base: undefined }, call);
    },

    getMetadataDelta(request, call) {
      const base = required(request.baseSnapshotId, "base_snapshot_id");
      const snapshot = required(request.targetSnapshotId, "target_snapshot_id");
      return messages(request, { snapshot, base }, call);
    },
  };
}
