import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Client, credentials } from "@grpc/grpc-js";
import { CsiError } from "../core/errors.ts";
import { parseEndpoint } from "./endpoint.ts";
import { ProbeRequestSchema, ProbeResponseSchema } from "./gen/csi/v1/csi_pb.ts";

/**
 * Asks the server at an endpoint once. True when it is ready; an absent answer means ready (CSI Probe).
 * Throws "unavailable" with the server's own words when the call fails or takes longer than `timeoutMs`.
 */
export async function probe(endpoint: string, timeoutMs: number): Promise<boolean> {
  const parsed = parseEndpoint(endpoint);
  const address = parsed.kind === "unix" ? `unix:${parsed.path}` : `${parsed.host}:${parsed.port}`;
  // What is probed is near; a proxy of the environment is for what is far away.
  const client = new Client(address, credentials.createInsecure(), {
    "grpc.default_authority": "localhost",
    "grpc.enable_http_proxy": 0,
  });
  try {
    return await new Promise<boolean>((resolve, reject) => {
      client.makeUnaryRequest(
        "/csi.v1.Identity/Probe",
        () => Buffer.from(toBinary(ProbeRequestSchema, create(ProbeRequestSchema))),
        bytes => fromBinary(ProbeResponseSchema, bytes),
        {},
        { deadline: Date.now() + timeoutMs },
        (error, answer) => {
          if (error) reject(new CsiError("unavailable", `${endpoint}: ${error.message}`));
          else resolve(answer?.ready !== false);
        },
      );
    });
  } finally {
    client.close();
  }
}
