/** The CSI services that `serve` mounts; generated code stays inside this folder. */
export { Controller, GroupController, Identity, Node, SnapshotMetadata } from "./gen/csi/v1/csi_pb.ts";
