import type { ServiceImpl } from "@connectrpc/connect";
import type { Segments } from "../core/access.ts";
import type { NodeVolumes } from "../node/volumes.ts";
import { capability, capacityRange, required, requiredMessage } from "./convert.ts";
import { NodeServiceCapability_RPC_Type as N, type Node, VolumeUsage_Unit as Unit } from "./gen/csi/v1/csi_pb.ts";
import { wireCondition, wireStorageHealth, wireVolumeHealth } from "./health.ts";
import type { Instrumented } from "./instrument.ts";
import { nodeCapabilities } from "./versions.ts";

/** The answer to NodeGetInfo. */
export interface NodeInfo {
  readonly nodeId: string;
  /** Undefined when no topology is configured. */
  readonly segments: Segments | undefined;
  /** The most volumes of the node; undefined: the orchestrator decides. */
  readonly maxVolumes: number | undefined;
}

/** The volume operations that the Node service uses. */
export type NodeCalls = Pick<
  NodeVolumes,
  "stage" | "unstage" | "publish" | "unpublish" | "stats" | "health" | "storageHealth" | "expand"
>;

/** The parts of the Node service. */
export interface NodeServiceParts {
  readonly volumes: NodeCalls;
  /** Throws while an input of the topology is missing, so that registration is retried. */
  readonly info: () => Promise<NodeInfo>;
  /** The CSI version, as [major, minor], above which nothing is advertised. */
  readonly version: readonly [number, number];
}

/** The Node service. It needs no connection: the volume context describes the attachment of a volume. */
export function nodeService({
  volumes,
  info,
  version,
}: NodeServiceParts): Partial<Instrumented<ServiceImpl<typeof Node>>> {
  const offered = nodeCapabilities(version);
  const tellsCondition = offered.includes(N.VOLUME_CONDITION);
  return {
    nodeGetCapabilities: async () => ({
      capabilities: offered.map(type => ({ type: { case: "rpc", value: { type } } })),
    }),

    nodeGetInfo: async () => {
      const { nodeId, segments, maxVolumes } = await info();
      const topology = segments && { accessibleTopology: { segments: { ...segments } } };
      return { nodeId, maxVolumesPerNode: BigInt(maxVolumes ?? 0), ...topology };
    },

    nodeStageVolume: async (request, call) => {
      const volumeId = required(request.volumeId, "volume_id");
      const stagingPath = required(request.stagingTargetPath, "staging_target_path");
      const wanted = capability(requiredMessage(request.volumeCapability, "volume_capability"));
      const { volumeContext: context, publishContext } = request;
      await volumes.stage({ volumeId, stagingPath, capability: wanted, context, publishContext }, call);
      return {};
    },

    nodeUnstageVolume: async (request, call) => {
      const volumeId = required(request.volumeId, "volume_id");
      await volumes.unstage(
        { volumeId, stagingPath: required(request.stagingTargetPath, "staging_target_path") },
        call,
      );
      return {};
    },

    nodePublishVolume: async (request, call) => {
      const volumeId = required(request.volumeId, "volume_id");
      const targetPath = required(request.targetPath, "target_path");
      const wanted = capability(requiredMessage(request.volumeCapability, "volume_capability"));
      const { stagingTargetPath, readonly, volumeContext, publishContext } = request;
      await volumes.publish(
        {
          volumeId,
          targetPath,
          capability: wanted,
          readonly,
          stagingPath: stagingTargetPath || undefined,
          context: volumeContext,
          publishContext,
        },
        call,
      );
      return {};
    },

    nodeUnpublishVolume: async (request, call) => {
      const volumeId = required(request.volumeId, "volume_id");
      await volumes.unpublish({ volumeId, targetPath: required(request.targetPath, "target_path") }, call);
      return {};
    },

    nodeGetVolumeStats: async (request, call) => {
      const volumeId = required(request.volumeId, "volume_id");
      const path = required(request.volumePath, "volume_path");
      const { usage, conditions, failure } = await volumes.stats({ volumeId, path }, call);
      // A failure that may be transient is not a condition yet, and leaves no statistics to return.
      if (failure && !(tellsCondition && conditions.length > 0)) throw failure;
      return {
        usage: usage.map(({ unit, ...counts }) => ({ unit: unit === "bytes" ? Unit.BYTES : Unit.INODES, ...counts })),
        ...(tellsCondition && { volumeCondition: wireCondition(conditions) }),
      };
    },

    nodeGetVolumeHealth: async (request, call) => {
      const volumeId = required(request.volumeId, "volume_id");
      const path = request.volumePublishPath || request.stagingTargetPath;
      return { volumeHealth: wireVolumeHealth(volumeId, await volumes.health({ volumeId, path }, call)) };
    },

    nodeGetStorageHealth: async (_, call) => {
      const storages = await volumes.storageHealth(call);
      return { backendHealth: storages.flatMap(({ conditions }) => conditions).map(wireStorageHealth) };
    },

    nodeExpandVolume: async (request, call) => {
      const volumeId = required(request.volumeId, "volume_id");
      const path = required(request.volumePath, "volume_path");
      if (request.volumeCapability) capability(request.volumeCapability);
      const { required: least } = capacityRange(request.capacityRange);
      return { capacityBytes: (await volumes.expand({ volumeId, path }, least, call)) ?? least ?? 0n };
    },
  };
}
