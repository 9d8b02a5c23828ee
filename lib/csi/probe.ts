import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import { CsiError } from "../core/errors.ts";
import { parseEndpoint } from "./endpoint.ts";
import { ProbeRequestSchema, ProbeResponseSchema } from "./gen/csi/v1/csi_pb.ts";
import { unreached } from "./socket-file.ts";

/** Why a call failed, in our own words: the library's texts describe its internals. */
function reasonOf({ code, details }: ServiceError, timeoutMs: number): string {
  if (code === status.DEADLINE_EXCEEDED) return `did not answer within ${timeoutMs / 1000} s`;
  if (code === status.UNIMPLEMENTED) return "is not a CSI endpoint (Probe is not implemented)";
  if (code !== status.UNAVAILABLE) return `reports a failure: ${details}`;
  const errno = /\b(E[A-Z]{3,})\b/.exec(details)?.[1];
  return unreached(errno, "is csimux running, and is this its --endpoint?");
}

/**
 * Sends one Probe to an endpoint. True if the plugin is ready; an absent value means ready (CSI Probe).
 * Throws "unavailable" with the reason if the call fails or takes longer than `timeoutMs`.
 */
export async function probe(endpoint: string, timeoutMs: number): Promise<boolean> {
  const parsed = parseEndpoint(endpoint);
  const address = parsed.kind === "unix" ? `unix:${parsed.path}` : `${parsed.host}:${parsed.port}`;
  // The endpoint is local; a proxy configured in the environment is for remote hosts.
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
          if (error) reject(new CsiError("unavailable", `${endpoint} ${reasonOf(error, timeoutMs)}`));
          else resolve(answer?.ready !== false);
        },
      );
    });
  } finally {
    client.close();
  }
}
