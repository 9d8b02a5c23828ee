import type { Capability } from "../core/access.ts";

/** String maps that CSI passes on with a volume: `volume_context` and `publish_context`. */
export type VolumeContext = Readonly<Record<string, string>>;

/** NodeStageVolume in plain values. The call holds the secrets. */
export interface StageRequest {
  readonly volumeId: string;
  readonly stagingPath: string;
  readonly capability: Capability;
  /** `volume_context`; `node_attach_driver` names the protocol. */
  readonly context: VolumeContext;
  readonly publishContext: VolumeContext;
}

/** NodeUnstageVolume. */
export interface UnstageRequest {
  readonly volumeId: string;
  readonly stagingPath: string;
}

/** NodePublishVolume. */
export interface PublishRequest {
  readonly volumeId: string;
  /** Empty or undefined if the caller sent none. */
  readonly stagingPath: string | undefined;
  readonly targetPath: string;
  readonly capability: Capability;
  readonly readonly: boolean;
  readonly context: VolumeContext;
  readonly publishContext: VolumeContext;
}

/** NodeUnpublishVolume. */
export interface UnpublishRequest {
  readonly volumeId: string;
  readonly targetPath: string;
}

/** NodeGetVolumeStats and NodeExpandVolume: a volume and its staging or target path. */
export interface VolumeAtPath {
  readonly volumeId: string;
  readonly path: string;
}
