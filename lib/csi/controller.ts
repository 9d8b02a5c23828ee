import type { ServiceImpl } from "@connectrpc/connect";
import type { Call } from "../core/call.ts";
import { type Capacity, infiniteBytes } from "../mux/capacity.ts";
import type { RoutedVolume } from "../mux/handles.ts";
import type { Listing } from "../mux/listing.ts";
import type { Snapshots } from "../mux/snapshots.ts";
import type { Volumes } from "../mux/volumes.ts";
import {
  accessibilityRequirements,
  capability,
  capacityRange,
  contentSource,
  isSize,
  mutableParameters,
  pageSize,
  required,
  requiredList,
  requiredName,
  requiredRange,
  wireSnapshot,
  wireVolume,
} from "./convert.ts";
import type { Controller } from "./gen/csi/v1/csi_pb.ts";
import { wireCondition, wireVolumeHealth } from "./health.ts";
import type { Instrumented } from "./instrument.ts";
import { controllerCapabilities, hasVolumeCondition } from "./versions.ts";

/** The parts of the Controller service. */
export interface ControllerParts {
  readonly volumes: Volumes;
  readonly snapshots: Snapshots;
  readonly listing: Listing;
  readonly capacity: Capacity;
  /** The CSI version, as [major, minor], above which nothing is advertised. */
  readonly version: readonly [number, number];
}

/** The status field of a volume: its condition, in the CSI versions that have it. */
async function statusOf({ volumes, version }: ControllerParts, id: string, call: Call) {
  const conditions = hasVolumeCondition(version) ? await volumes.condition(id, call) : undefined;
  return conditions ? { volumeCondition: wireCondition(conditions) } : {};
}

/** The Controller service. RPCs that no connection could serve are left out and answer "unimplemented". */
export const controllerService = (parts: ControllerParts): Partial<Instrumented<ServiceImpl<typeof Controller>>> => ({
  controllerGetCapabilities: async () => ({
    capabilities: controllerCapabilities(parts.version).map(type => ({ type: { case: "rpc", value: { type } } })),
  }),

  createVolume: async (request, call) => {
    const volume = await parts.volumes.create(
      {
        name: requiredName(request.name),
        capabilities: requiredList(request.volumeCapabilities, "volume_capabilities").map(capability),
        range: capacityRange(request.capacityRange),
        parameters: request.parameters,
        source: contentSource(request.volumeContentSource),
        accessibility: accessibilityRequirements(request.accessibilityRequirements),
        mutable: request.mutableParameters,
      },
      call,
    );
    return { volume: wireVolume(volume, call.log) };
  },

  deleteVolume: async (request, call) => {
    await parts.volumes.delete(required(request.volumeId, "volume_id"), call);
    return {};
  },

  validateVolumeCapabilities: async (request, call) => {
    const id = required(request.volumeId, "volume_id");
    const wanted = requiredList(request.volumeCapabilities, "volume_capabilities").map(capability);
    const reason = await parts.volumes.validateCapabilities(
      { id, capabilities: wanted, context: request.volumeContext, parameters: request.parameters },
      call,
    );
    // Context and parameters belong to the driver, so only the checked capabilities are confirmed.
    return reason === undefined
      ? { confirmed: { volumeCapabilities: request.volumeCapabilities } }
      : { message: reason };
  },

  controllerGetVolume: async (request, call) => {
    const volume = await parts.volumes.get(required(request.volumeId, "volume_id"), call);
    return { volume: wireVolume(volume, call.log), status: await statusOf(parts, volume.id, call) };
  },

  controllerModifyVolume: async (request, call) => {
    const properties = mutableParameters(request.mutableParameters);
    await parts.volumes.modify(required(request.volumeId, "volume_id"), properties, call);
    return {};
  },

  controllerExpandVolume: async (request, call) => {
    const id = required(request.volumeId, "volume_id");
    const range = requiredRange(request.capacityRange);
    const wanted = request.volumeCapability && capability(request.volumeCapability);
    const { bytes, onNode } = await parts.volumes.expand(id, range, wanted, call);
    // A volume is at least as large as requested, whatever size the storage system reports.
    const capacityBytes = isSize(bytes) ? bytes : (range.required ?? 0n);
    return { capacityBytes, nodeExpansionRequired: onNode };
  },

  listVolumes: async (request, call) => {
    const page = { max: pageSize(request.maxEntries), token: request.startingToken };
    const { items, next } = await parts.listing.volumes(page, call);
    const entry = async (volume: RoutedVolume) => {
      const status = hasVolumeCondition(parts.version) ? await statusOf(parts, volume.id, call) : undefined;
      return { volume: wireVolume(volume, call.log), ...(status && { status }) };
    };
    return { entries: await Promise.all(items.map(entry)), nextToken: next ?? "" };
  },

  controllerGetVolumeHealth: async (request, call) => {
    const id = required(request.volumeId, "volume_id");
    return { volumeHealth: wireVolumeHealth(id, await parts.volumes.health(id, call)) };
  },

  controllerListVolumeHealth: async (request, call) => {
    const page = { max: pageSize(request.maxEntries), token: request.startingToken };
    const { items, next } = await parts.listing.health(page, call);
    return { entries: items.map(({ id, conditions }) => wireVolumeHealth(id, conditions)), nextToken: next ?? "" };
  },

  getCapacity: async (request, call) => {
    const segments = request.accessibleTopology?.segments;
    const availableCapacity = await parts.capacity.available(
      {
        capabilities: request.volumeCapabilities.map(capability),
        parameters: request.parameters,
        segment: segments && Object.keys(segments).length > 0 ? segments : undefined,
      },
      call,
    );
    // Too large a capacity does no harm: CreateVolume fails later with "resource-exhausted".
    const most = availableCapacity < 0n ? 0n : infiniteBytes;
    return { availableCapacity: isSize(availableCapacity) ? availableCapacity : most };
  },

  createSnapshot: async (request, call) => {
    const snapshot = await parts.snapshots.create(
      {
        volume: required(request.sourceVolumeId, "source_volume_id"),
        name: requiredName(request.name),
        parameters: request.parameters,
        accessibility: accessibilityRequirements(request.accessibilityRequirements),
      },
      call,
    );
    return { snapshot: wireSnapshot(snapshot, call.log) };
  },

  deleteSnapshot: async (request, call) => {
    await parts.snapshots.delete(required(request.snapshotId, "snapshot_id"), call);
    return {};
  },

  getSnapshot: async (request, call) => ({
    snapshot: wireSnapshot(await parts.snapshots.get(required(request.snapshotId, "snapshot_id"), call), call.log),
  }),

  listSnapshots: async (request, call) => {
    const page = { max: pageSize(request.maxEntries), token: request.startingToken };
    const filter = { snapshot: request.snapshotId, volume: request.sourceVolumeId };
    const { items, next } = await parts.listing.snapshots(page, filter, call);
    return { entries: items.map(snapshot => ({ snapshot: wireSnapshot(snapshot, call.log) })), nextToken: next ?? "" };
  },
});
