import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import { CsiError } from "../core/errors.ts";
import { parseEndpoint } from "./endpoint.ts";
import { ProbeRequestSchema, ProbeResponseSchema } from "./gen/csi/v1/csi_pb.ts";

/** Why a call failed, in words of our own: the library's speak of its inside. */
function reasonOf({ code, details }: ServiceError, timeoutMs: number): string {
  if (code === status.DEADLINE_EXCEEDED) return `gives no answer within ${timeoutMs / 1000} s`;
  if (code === status.UNIMPLEMENTED) return "is no CSI driver: it knows no Probe";
  if (code !== status.UNAVAILABLE) return `answers that it is not well: ${details}`;
  const errno = /\b(E[A-Z]{3,})\b/.exec(details)?.[1];
  if (errno === "ENOENT") return "is not there; has csimux started, and is this its --endpoint?";
  if (errno === "ECONNREFUSED") return "is there, but nobody listens; has csimux ended?";
  if (errno === "EACCES") return "may not be used by this user";
  return errno === undefined ? "cannot be reached" : `cannot be reached (${errno})`;
}

/**
 * Asks the server at an endpoint once. True when it is ready; an absent answer means ready (CSI Probe).
 * Throws "unavailable" and says why when the call fails or takes longer than `timeoutMs`.
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
          if (error) reject(new CsiError("unavailable", `${endpoint} ${reasonOf(error, timeoutMs)}`));
          else resolve(answer?.ready !== false);
        },
      );
    });
  } finally {
    client.close();
  }
}
