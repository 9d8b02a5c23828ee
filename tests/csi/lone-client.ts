/** A client process of its own: calls Probe on the socket given as first argument and waits for the answer. */
import { Identity } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { call, connectTo } from "./rig.ts";

await call(connectTo(`unix:${process.argv[2]}`), Identity.method.probe, {});
