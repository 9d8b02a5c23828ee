import type { MessageInitShape } from "@bufbuild/protobuf";
import { type Timestamp, timestampFromMs } from "@bufbuild/protobuf/wkt";
import type { AccessMode, Capability, Segments } from "../core/access.ts";
import { type CapacityRange, maxInt64 } from "../core/bytes.ts";
import type { Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { RepeatedLines } from "../core/log.ts";
import type { Source } from "../drivers/driver.ts";
import type { RoutedSnapshot, RoutedVolume } from "../mux/handles.ts";
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

/** The longest string in bytes unless the specification says otherwise (CSI "Size Limits"). */
const maxStringBytes = 128;

/** Characters that names must not contain (CSI CreateVolumeRequest.name). */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this is the list of forbidden control characters
const forbidden = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/;

/** Throws "invalid-argument" if a required field is empty (CSI "Required"). */
export function required(value: string, field: string): string {
  if (value === "") throw new CsiError("invalid-argument", `${field} is missing`);
  return value;
}

/** The value of a required message field; throws "invalid-argument" if it is missing. */
export function requiredMessage<T>(value: T | undefined, field: string): T {
  if (value === undefined) throw new CsiError("invalid-argument", `${field} is missing`);
  return value;
}

/**
 * The caller's name for a new object: present, short enough, without control characters; else throws
 * "invalid-argument".
 */
export function requiredName(value: string, field = "name"): string {
  required(value, field);
  if (Buffer.byteLength(value) > maxStringBytes)
    throw new CsiError("invalid-argument", `${field} is longer than ${maxStringBytes} bytes`);
  if (forbidden.test(value)) throw new CsiError("invalid-argument", `${field} contains a control character`);
  return value;
}

/** Throws "invalid-argument" for an empty list. */
export function requiredList<T>(list: readonly T[], field: string): readonly T[] {
  if (list.length === 0) throw new CsiError("invalid-argument", `${field} is missing`);
  return list;
}

/** A page size; throws "invalid-argument" if it is negative. */
export function pageSize(max: number): number {
  if (max < 0) throw new CsiError("invalid-argument", "max_entries is negative");
  return max;
}

const modes: ReadonlyMap<Mode, AccessMode> = new Map([
  [Mode.SINGLE_NODE_WRITER, "single-node-writer"],
  [Mode.SINGLE_NODE_READER_ONLY, "single-node-reader-only"],
  [Mode.MULTI_NODE_READER_ONLY, "multi-node-reader-only"],
  [Mode.MULTI_NODE_SINGLE_WRITER, "multi-node-single-writer"],
  [Mode.MULTI_NODE_MULTI_WRITER, "multi-node-multi-writer"],
  [Mode.SINGLE_NODE_SINGLE_WRITER, "single-node-single-writer"],
  [Mode.SINGLE_NODE_MULTI_WRITER, "single-node-multi-writer"],
]);

/**
 * Converts a VolumeCapability. Throws "invalid-argument" if access type or mode is missing or unknown (CSI
 * VolumeCapability).
 */
export function capability(wire: VolumeCapability): Capability {
  const mode = modes.get(wire.accessMode?.mode ?? Mode.UNKNOWN);
  if (!mode) throw new CsiError("invalid-argument", "volume_capability has no access_mode, or one unknown to csimux");
  const { accessType } = wire;
  if (accessType.case === undefined)
    throw new CsiError("invalid-argument", "volume_capability has neither block nor mount");
  if (accessType.case === "block")
    return { kind: "block", fsType: undefined, mountFlags: [], mountGroup: undefined, mode };
  const { fsType, mountFlags, volumeMountGroup } = accessType.value;
  return { kind: "mount", fsType: fsType || undefined, mountFlags, mountGroup: volumeMountGroup || undefined, mode };
}

/** Converts a CapacityRange; zero means "not given". */
export const capacityRange = (wire: WireRange | undefined): CapacityRange => ({
  required: wire?.requiredBytes || undefined,
  limit: wire?.limitBytes || undefined,
});

/**
 * Converts a required CapacityRange; throws "invalid-argument" if it is missing or without a size (CSI CapacityRange).
 */
export function requiredRange(wire: WireRange | undefined): CapacityRange {
  const range = capacityRange(requiredMessage(wire, "capacity_range"));
  if (range.required === undefined && range.limit === undefined)
    throw new CsiError("invalid-argument", "capacity_range has neither required_bytes nor limit_bytes");
  return range;
}

/**
 * Converts a VolumeContentSource; its id is still a handle. Throws "invalid-argument" for one of neither kind or
 * without an id.
 */
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

/** The properties to change, without the names of claim and volume that external-resizer adds (--extra-modify-metadata). */
export const mutableParameters = (wire: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(wire).filter(([key]) => !key.startsWith("csi.storage.k8s.io/")));

/** Converts a TopologyRequirement; terms without a key are meaningless and left out. */
export function accessibilityRequirements(wire: TopologyRequirement | undefined): {
  requisite: readonly Segments[];
  preferred: readonly Segments[];
} {
  const terms = (list: TopologyRequirement["requisite"] | undefined) =>
    (list ?? []).map(({ segments }) => segments).filter(segments => Object.keys(segments).length > 0);
  return { requisite: terms(wire?.requisite), preferred: terms(wire?.preferred) };
}

/** Whether CSI can express this size. */
export const isSize = (bytes: bigint): boolean => bytes >= 0n && bytes <= maxInt64;

/**
 * Limits log lines about impossible values from storage systems, because each listing would repeat them every minute.
 */
const invalid = new RepeatedLines();

function logInvalid(what: string, said: string, log: Log): void {
  const times = invalid.due(`${what} ${said}`);
  if (times !== undefined)
    log.warn(`the storage system reported an impossible value for "${what}", omitted from the answer: ${said}`);
}

/**
 * The size of an object for CSI; 0 ("unknown", CSI Volume and Snapshot) if it is impossible, because one bad value must
 * not make a whole listing fail.
 */
function sizeOf({ id, bytes }: { readonly id: string; readonly bytes: bigint }, log: Log): bigint {
  if (isSize(bytes)) return bytes;
  logInvalid(id, `a size of ${bytes} bytes`, log);
  return 0n;
}

/** The range of google.protobuf.Timestamp, years 1 to 9999, in milliseconds. */
const firstMs = Date.parse("0001-01-01T00:00:00Z");
const lastMs = Date.parse("9999-12-31T23:59:59Z");

/** The creation time of an object; 1970 if it is impossible, for the same reason. */
export function timeOf(id: string, createdAt: Date, log: Log): Timestamp {
  const ms = createdAt.getTime();
  if (ms >= firstMs && ms <= lastMs) return timestampFromMs(ms);
  logInvalid(id, "an impossible time of creation", log);
  return timestampFromMs(0);
}

/** Converts a volume to a CSI Volume. */
export const wireVolume = (volume: RoutedVolume, log: Log): MessageInitShape<typeof VolumeSchema> => ({
  volumeId: volume.id,
  capacityBytes: sizeOf(volume, log),
  volumeContext: { ...volume.context },
  ...(volume.source && { contentSource: wireSource(volume.source) }),
  accessibleTopology: volume.accessibleTopology.map(wireTopology),
});

const wireTopology = (segments: Segments): MessageInitShape<typeof TopologySchema> => ({ segments: { ...segments } });

const wireSource = ({ kind, id }: Source): MessageInitShape<typeof VolumeContentSourceSchema> =>
  kind === "snapshot"
    ? { type: { case: "snapshot", value: { snapshotId: id } } }
    : { type: { case: "volume", value: { volumeId: id } } };

/** Converts a snapshot to a CSI Snapshot. */
export const wireSnapshot = (snapshot: RoutedSnapshot, log: Log): MessageInitShape<typeof SnapshotSchema> => ({
  snapshotId: snapshot.id,
  sourceVolumeId: snapshot.volumeId,
  sizeBytes: sizeOf(snapshot, log),
  creationTime: timeOf(snapshot.id, snapshot.createdAt, log),
  readyToUse: snapshot.ready,
  groupSnapshotId: snapshot.group ?? "",
  accessibleTopology: snapshot.accessibleTopology.map(wireTopology),
});
