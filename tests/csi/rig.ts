import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  create,
  type DescMethod,
  fromBinary,
  type Message,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import {
  Client,
  type ClientOptions,
  type ClientUnaryCall,
  credentials,
  Metadata,
  type ServiceError,
} from "@grpc/grpc-js";
import type { CallContext } from "../../lib/csi/context.ts";
import { Identity, SnapshotMetadata } from "../../lib/csi/gen/csi/v1/csi_pb.ts";
import { GrpcServer } from "../../lib/csi/server.ts";
import { pause } from "../waiting.ts";

/** Request limit of the servers under test, in bytes. */
export const maxRequestBytes = 4 << 20;

/** An answer, or the code and text of a failure. */
export type Outcome<T> =
  | { readonly answer: T; readonly code: 0; readonly details: "" }
  | { readonly answer: undefined; readonly code: number; readonly details: string };

/** A running server on a Unix socket in a folder of its own. */
export interface Rig {
  readonly server: GrpcServer;
  readonly folder: string;
  readonly path: string;
  client(): Client;
  /** Stops the server, closes the clients and removes the folder. */
  end(): Promise<void>;
}

/** What a client sent with a call, by the context that its handler gets. */
export const metadataOf = (context: object): Metadata => (context as CallContext).metadata;

export const temporaryFolder = (): string => mkdtempSync(join(tmpdir(), "csimux-wire-"));

/** A client for an address such as unix:/path. */
export const connectTo = (address: string, options: ClientOptions = {}): Client =>
  new Client(address, credentials.createInsecure(), {
    "grpc.default_authority": "localhost",
    "grpc.use_local_subchannel_pool": 1,
    "grpc.max_receive_message_length": -1,
    "grpc.initial_reconnect_backoff_ms": 100,
    ...options,
  });

/** Serves Identity, and SnapshotMetadata for streams, with the given methods. */
export async function startRig(
  identity: Partial<ServiceImpl<typeof Identity>>,
  streams: Partial<ServiceImpl<typeof SnapshotMetadata>> = {},
): Promise<Rig> {
  const folder = temporaryFolder();
  const path = join(folder, "csi.sock");
  const server = new GrpcServer({ maxRequestBytes });
  server.mount(Identity, identity);
  server.mount(SnapshotMetadata, streams);
  await server.listen({ kind: "unix", path });
  const clients: Client[] = [];
  return {
    server,
    folder,
    path,
    client: () => {
      const client = connectTo(`unix:${path}`);
      clients.push(client);
      return client;
    },
    end: async () => {
      for (const client of clients) client.close();
      await server.stop(0);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const pathOf = (method: DescMethod): string => `/${method.parent.typeName}/${method.name}`;

/** Options of one call. */
export interface CallOptions {
  readonly deadlineMs?: number;
  readonly metadata?: Metadata;
  readonly host?: string;
  /** Is given the call as soon as it is under way, to cancel it for example. */
  readonly started?: (call: ClientUnaryCall) => void;
}

/** One unary call over the wire; never rejects. */
export function call<M extends DescMethod>(
  client: Client,
  method: M,
  request: MessageInitShape<M["input"]>,
  options: CallOptions = {},
): Promise<Outcome<MessageShape<M["output"]>>> {
  return new Promise(resolve => {
    const done = (error: ServiceError | null, answer?: Message) => {
      if (error) resolve({ answer: undefined, code: error.code, details: error.details });
      else resolve({ answer: answer as MessageShape<M["output"]>, code: 0, details: "" });
    };
    const started = client.makeUnaryRequest(
      pathOf(method),
      (message: Message) => Buffer.from(toBinary(method.input, message)),
      bytes => fromBinary(method.output, bytes) as Message,
      create(method.input, request) as Message,
      options.metadata ?? new Metadata(),
      {
        ...(options.deadlineMs === undefined ? {} : { deadline: Date.now() + options.deadlineMs }),
        ...(options.host === undefined ? {} : { host: options.host }),
      },
      done,
    );
    options.started?.(started);
  });
}

/** What a server stream sent before it ended, and how it ended. */
export function stream<M extends DescMethod>(client: Client, method: M, request: MessageInitShape<M["input"]>) {
  const parts: MessageShape<M["output"]>[] = [];
  const reader = client.makeServerStreamRequest(
    pathOf(method),
    (message: Message) => Buffer.from(toBinary(method.input, message)),
    bytes => fromBinary(method.output, bytes) as Message,
    create(method.input, request) as Message,
  );
  const ended = new Promise<{ code: number; details: string }>(resolve => {
    reader.on("data", part => parts.push(part));
    reader.on("error", () => {});
    reader.on("status", ({ code, details }) => resolve({ code, details }));
  });
  return { reader, parts, ended };
}

/** Waits until the condition holds; throws when it does not within half a minute. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  const end = Date.now() + 30_000;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`waited too long for ${what}`);
    await pause(2);
  }
}

/** A promise and the function that fulfils it. */
export function gate(): { readonly open: () => void; readonly opened: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { open: resolve, opened: promise };
}
