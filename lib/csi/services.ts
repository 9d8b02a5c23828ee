/** The CSI services that `serve` mounts; generated code stays behind this folder. */
export { Controller, GroupController, Identity, Node } from "./gen/csi/v1/csi_pb.ts";
