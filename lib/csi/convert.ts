import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { AccessMode, Capability } from "../core/access.ts";
import type { CapacityRange } from "../core/bytes.ts";
import type { Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { Repeats } from "../core/repeats.ts";
import type { Segments } from "../core/topology.ts";
import type { Source } from "../drivers/driver.ts";
import type { PlacedSnapshot, PlacedVolume } from "../mux/placed.ts";
import {
  VolumeCapability_AccessMode_Mode as Mode,
  type SnapshotSchema,
  type TopologyRequirement,
  type TopologySchema,
  type VolumeCapability,
  type VolumeContentSource,
  type VolumeContentSourceSchema,
  type VolumeSchema,
  type CapacityRange as WireRange,
} from "./gen/csi/v1/csi_pb.ts";
import { requiredMessage } from "./require.ts";

const modes: ReadonlyMap<Mode, AccessMode> = new Map([
  [Mode.SINGLE_NODE_WRITER, "single-node-writer"],
  [Mode.SINGLE_NODE_READER_ONLY, "single-node-reader-only"],
  [Mode.MULTI_NODE_READER_ONLY, "multi-node-reader-only"],
  [Mode.MULTI_NODE_SINGLE_WRITER, "multi-node-single-writer"],
  [Mode.MULTI_NODE_MULTI_WRITER, "multi-node-multi-writer"],
  [Mode.SINGLE_NODE_SINGLE_WRITER, "single-node-single-writer"],
  [Mode.SINGLE_NODE_MULTI_WRITER, "single-node-multi-writer"],
]);

/** A VolumeCapability. Throws "invalid-argument" when access type or mode is missing or unknown (CSI VolumeCapability). */
export function capability(wire: VolumeCapability): Capability {
  const mode = modes.get(wire.accessMode?.mode ?? Mode.UNKNOWN);
  if (!mode)
    throw new CsiError("invalid-argument", "volume_capability has no access_mode, or one that csimux does not know");
  const { accessType } = wire;
  if (accessType.case === undefined)
    throw new CsiError("invalid-argument", "volume_capability has neither block nor mount");
  if (accessType.case === "block")
    return { kind: "block", fsType: undefined, mountFlags: [], mountGroup: undefined, mode };
  const { fsType, mountFlags, volumeMountGroup } = accessType.value;
  return { kind: "mount", fsType: fsType || undefined, mountFlags, mountGroup: volumeMountGroup || undefined, mode };
}

/** A CapacityRange; zero is "not given". */
export const capacityRange = (wire: WireRange | undefined): CapacityRange => ({
  required: wire?.requiredBytes || undefined,
  limit: wire?.limitBytes || undefined,
});

/** A required CapacityRange; throws "invalid-argument" when there is none or it names no size (CSI CapacityRange). */
export function requiredRange(wire: WireRange | undefined): CapacityRange {
  const range = capacityRange(requiredMessage(wire, "capacity_range"));
  if (range.required === undefined && range.limit === undefined)
    throw new CsiError("invalid-argument", "capacity_range has neither required_bytes nor limit_bytes");
  return range;
}

/** A VolumeContentSource; its id is still a handle. Throws "invalid-argument" for a source of neither kind or without id. */
export function contentSource(wire: VolumeContentSource | undefined): Source | undefined {
  if (!wire) return undefined;
  const { type } = wire;
  const source: Source | undefined =
    type.case === "snapshot"
      ? { kind: "snapshot", id: type.value.snapshotId }
      : type.case === "volume"
        ? { kind: "volume", id: type.value.volumeId }
        : undefined;
  if (!source?.id)
    throw new CsiError("invalid-argument", "volume_content_source names neither a snapshot nor a volume");
  return source;
}

/** A TopologyRequirement; terms without a key say nothing and are left out. */
export function demand(wire: TopologyRequirement | undefined): {
  requisite: readonly Segments[];
  preferred: readonly Segments[];
} {
  const terms = (list: TopologyRequirement["requisite"] | undefined) =>
    (list ?? []).map(({ segments }) => segments).filter(segments => Object.keys(segments).length > 0);
  return { requisite: terms(wire?.requisite), preferred: terms(wire?.preferred) };
}

/** The largest size that CSI can tell, in bytes (int64). */
const mostBytes = 2n ** 63n - 1n;

/** Whether CSI can tell this size. */
export const isSize = (bytes: bigint): boolean => bytes >= 0n && bytes <= mostBytes;

/** Lines about answers of storages that cannot be true; a listing would repeat each of them every minute. */
const untrue = new Repeats();

function tellUntrue(what: string, said: string, log: Log): void {
  const times = untrue.due(`${what} ${said}`);
  if (times !== undefined)
    log.warn(`the storage says something impossible of "${what}", which is left out of the answer: ${said}`);
}

/**
 * The size of an object as CSI tells it, 0 ("unknown", CSI Volume and Snapshot) for one that cannot be: what a storage says of one
 * object must not keep the others out of a listing.
 */
function sizeOf({ id, bytes }: { readonly id: string; readonly bytes: bigint }, log: Log): bigint {
  if (isSize(bytes)) return bytes;
  tellUntrue(id, `a size of ${bytes} bytes`, log);
  return 0n;
}

/** Years 1 to 9999 (google.protobuf.Timestamp), in milliseconds. */
const firstMs = Date.parse("0001-01-01T00:00:00Z");
const lastMs = Date.parse("9999-12-31T23:59:59Z");

/** When an object was made; 1970 for a time that cannot be, as above. */
export function timeOf(id: string, createdAt: Date, log: Log): Timestamp {
  const ms = createdAt.getTime();
  if (ms >= firstMs && ms <= lastMs) return timestampFromMs(ms);
  tellUntrue(id, "an impossible time of creation", log);
  return timestampFromMs(0);
}

/** A Volume as CSI answers it. */
export const wireVolume = (volume: PlacedVolume, log: Log): MessageInitShape<typeof VolumeSchema> => ({
  volumeId: volume.id,
  capacityBytes: sizeOf(volume, log),
  volumeContext: { ...volume.context },
  ...(volume.source && { contentSource: wireSource(volume.source) }),
  accessibleTopology: volume.places.map(wireTopology),
});

const wireTopology = (segments: Segments): MessageInitShape<typeof TopologySchema> => ({ segments: { ...segments } });

const wireSource = ({ kind, id }: Source): MessageInitShape<typeof VolumeContentSourceSchema> =>
  kind === "snapshot"
    ? { type: { case: "snapshot", value: { snapshotId: id } } }
    : { type: { case: "volume", value: { volumeId: id } } };

/** A Snapshot as CSI answers it. */
export const wireSnapshot = (snapshot: PlacedSnapshot, log: Log): MessageInitShape<typeof SnapshotSchema> => ({
  snapshotId: snapshot.id,
  sourceVolumeId: snapshot.volumeId,
  sizeBytes: sizeOf(snapshot, log),
  creationTime: timeOf(snapshot.id, snapshot.createdAt, log),
  readyToUse: snapshot.ready,
  groupSnapshotId: snapshot.group ?? "",
  accessibleTopology: snapshot.places.map(wireTopology),
});
