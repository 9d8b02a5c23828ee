import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import type { Log } from "../core/call.ts";
import type { RoutedGroupSnapshot } from "../mux/handles.ts";
import type { GroupSnapshots } from "../mux/snapshots.ts";
import { required, requiredList, requiredName, timeOf, wireSnapshot } from "./convert.ts";
import {
  GroupControllerServiceCapability_RPC_Type as G,
  type GroupController,
  type VolumeGroupSnapshotSchema,
} from "./gen/csi/v1/csi_pb.ts";
import type { Instrumented } from "./instrument.ts";
import { hasGroupSnapshots, type Version } from "./versions.ts";

/** The parts of the GroupController service. */
export interface GroupControllerParts {
  readonly groupSnapshots: GroupSnapshots;
  readonly version: Version;
}

const wireGroup = (group: RoutedGroupSnapshot, log: Log): MessageInitShape<typeof VolumeGroupSnapshotSchema> => ({
  groupSnapshotId: group.id,
  snapshots: group.snapshots.map(each => wireSnapshot(each, log)),
  creationTime: timeOf(group.id, group.createdAt, log),
  readyToUse: group.ready,
});

/** The GroupController service. */
export const groupControllerService = ({
  groupSnapshots,
  version,
}: GroupControllerParts): Instrumented<ServiceImpl<typeof GroupController>> => ({
  groupControllerGetCapabilities: async () => ({
    capabilities: hasGroupSnapshots(version)
      ? [{ type: { case: "rpc", value: { type: G.CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT } } }]
      : [],
  }),

  createVolumeGroupSnapshot: async (request, call) => {
    const name = requiredName(request.name);
    const volumes = requiredList(request.sourceVolumeIds, "source_volume_ids");
    return { groupSnapshot: wireGroup(await groupSnapshots.create(name, volumes, request.parameters, call), call.log) };
  },

  deleteVolumeGroupSnapshot: async (request, call) => {
    const id = required(request.groupSnapshotId, "group_snapshot_id");
    await groupSnapshots.delete(id, request.snapshotIds, call);
    return {};
  },

  getVolumeGroupSnapshot: async (request, call) => {
    const id = required(request.groupSnapshotId, "group_snapshot_id");
    return { groupSnapshot: wireGroup(await groupSnapshots.get(id, request.snapshotIds, call), call.log) };
  },
});
