import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Condition } from "../health/condition-tracker.ts";
import { reasonText, type Severity } from "../health/reasons.ts";
import {
  type NodeGetStorageHealthResponse_StorageBackendHealthSchema,
  StorageHealthErrorType,
  type VolumeConditionSchema,
  VolumeHealthErrorType,
  type VolumeHealthSchema,
} from "./gen/csi/v1/csi_pb.ts";

const volumeStatus: Readonly<Record<Severity, VolumeHealthErrorType>> = {
  degraded: VolumeHealthErrorType.DEGRADED,
  inaccessible: VolumeHealthErrorType.INACCESSIBLE,
  "data-loss": VolumeHealthErrorType.DATA_LOSS,
};

/** The conditions of a volume as a CSI VolumeHealth; an empty list means that no adverse condition is known. */
export const wireVolumeHealth = (
  volumeId: string,
  conditions: readonly Condition[],
): MessageInitShape<typeof VolumeHealthSchema> => ({
  volumeId,
  healthStatuses: conditions.map(({ reason, message }) => ({
    status: volumeStatus[reasonText(reason).severity],
    reason,
    message,
  })),
});

/** The same as a VolumeCondition, for orchestrators that use VOLUME_CONDITION (CSI up to 1.12). */
export const wireCondition = (conditions: readonly Condition[]): MessageInitShape<typeof VolumeConditionSchema> => ({
  abnormal: conditions.length > 0,
  message: conditions.map(({ reason, message }) => `${reason}: ${message}`).join("; "),
});

/** The condition of a storage system as seen by a node (StorageBackendHealth). */
export const wireStorageHealth = ({
  reason,
  message,
}: Condition): MessageInitShape<typeof NodeGetStorageHealthResponse_StorageBackendHealthSchema> => ({
  status:
    reasonText(reason).severity === "inaccessible"
      ? StorageHealthErrorType.STORAGE_UNREACHABLE
      : StorageHealthErrorType.STORAGE_DEGRADED,
  reason,
  message,
});
