import {
  create,
  type DescMessage,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import { Client, credentials } from "@grpc/grpc-js";
import { VolumeCapability_AccessMode_Mode } from "../lib/csi/gen/csi/v1/csi_pb.ts";

/** A CSI client with one connection. */
export interface CsiClient {
  /** Calls one method; rejects with a ServiceError of grpc-js, whose `code` is the gRPC status. */
  call<I extends DescMessage, O extends DescMessage>(
    method: DescMethodUnary<I, O>,
    request: MessageInitShape<I>,
    timeoutMs?: number,
  ): Promise<MessageShape<O>>;
  close(): void;
}

/** Mounting on one node, with any file system. */
export const mountCapability = {
  accessType: { case: "mount" as const, value: {} },
  accessMode: { mode: VolumeCapability_AccessMode_Mode.SINGLE_NODE_WRITER },
};

/** A client for a Unix socket. It connects with the first call and retries until that call times out. */
export function csiClient(socket: string): CsiClient {
  const client = new Client(`unix:${socket}`, credentials.createInsecure(), {
    "grpc.default_authority": "localhost",
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1000,
    "grpc.use_local_subchannel_pool": 1,
  });
  return {
    call: (method, request, timeoutMs = 30_000) =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(
          `/${method.parent.typeName}/${method.name}`,
          message => Buffer.from(toBinary(method.input, message)),
          bytes => fromBinary(method.output, bytes),
          create(method.input, request),
          { deadline: Date.now() + timeoutMs },
          (error, answer) => (error || !answer ? reject(error ?? new Error("no answer")) : resolve(answer)),
        );
      }),
    close: () => client.close(),
  };
}
