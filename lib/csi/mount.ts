import {
  create,
  type DescMessage,
  type DescMethod,
  type DescService,
  fromBinary,
  type Message,
  type MessageInitShape,
  toBinary,
} from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import {
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  type Server,
  type ServerErrorResponse,
  type ServerWritableStream,
} from "@grpc/grpc-js";
import { CsiError } from "../core/errors.ts";
import { type ActiveCalls, CallContext } from "./context.ts";
import { toConnectError, wireText } from "./status.ts";

type Init = MessageInitShape<DescMessage>;
type Unary = (request: Message, context: CallContext) => Promise<Init> | Init;
type Streaming = (request: Message, context: CallContext) => AsyncIterable<Init>;

/** Converts an error to the status of a failed call for grpc-js. */
function toStatus(error: unknown): ServerErrorResponse {
  const { code, rawMessage } = toConnectError(error);
  const details = wireText(rawMessage);
  return { name: "Error", message: details, code: code as number, details, metadata: new Metadata() };
}

const stopping = (): CsiError => new CsiError("unavailable", "csimux is stopping; retry");

/** Creates the context of a new call; throws if the server refuses new calls. */
function begin(call: ConstructorParameters<typeof CallContext>[0], calls: ActiveCalls): CallContext {
  if (calls.closed) throw stopping();
  const context = new CallContext(call);
  calls.add(context);
  return context;
}

function unaryHandler(output: DescMessage, run: Unary, calls: ActiveCalls): handleUnaryCall<Message, Message> {
  return async (call, reply) => {
    let context: CallContext | undefined;
    try {
      context = begin(call, calls);
      reply(null, create(output, await run(call.request, context)));
    } catch (error) {
      reply(toStatus(error));
    } finally {
      if (context) calls.remove(context);
    }
  };
}

/** Resolves when the stream accepts more data or is closed. */
const writable = (call: ServerWritableStream<Message, Message>): Promise<void> =>
  new Promise(resolve => {
    const settle = () => {
      call.off("drain", settle);
      call.off("close", settle);
      resolve();
    };
    call.on("drain", settle);
    call.on("close", settle);
  });

function streamingHandler(
  output: DescMessage,
  run: Streaming,
  calls: ActiveCalls,
): handleServerStreamingCall<Message, Message> {
  return async call => {
    let context: CallContext | undefined;
    try {
      context = begin(call, calls);
      for await (const part of run(call.request, context)) {
        if (call.cancelled) return;
        if (!call.write(create(output, part))) await writable(call);
      }
      call.end();
    } catch (error) {
      if (!call.cancelled) call.emit("error", toStatus(error));
    } finally {
      if (context) calls.remove(context);
    }
  };
}

const unimplemented = (service: DescService, method: DescMethod) => (): never => {
  throw new CsiError("unimplemented", `${service.typeName}.${method.name} is not implemented`);
};

/** A view of the bytes, not a copy: grpc-js copies them into the frame anyway. */
function serialize(output: DescMessage, message: Message): Buffer {
  const bytes = toBinary(output, message);
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/**
 * Adds one service to a grpc-js server. Methods missing from `implementation` answer UNIMPLEMENTED. Serves unary and
 * server-streaming methods, the only ones in CSI; throws for any other.
 */
export function mount<S extends DescService>(
  server: Server,
  service: S,
  implementation: Partial<ServiceImpl<S>>,
  calls: ActiveCalls,
): void {
  const methods = implementation as Readonly<Record<string, ((...args: never[]) => unknown) | undefined>>;
  for (const method of service.methods) {
    const path = `/${service.typeName}/${method.name}`;
    const run = methods[method.localName]?.bind(implementation) ?? unimplemented(service, method);
    const write = (message: Message) => serialize(method.output, message);
    const read = (bytes: Buffer) => fromBinary(method.input, bytes);
    if (method.methodKind === "unary")
      server.register(path, unaryHandler(method.output, run as Unary, calls), write, read, "unary");
    else if (method.methodKind === "server_streaming")
      server.register(path, streamingHandler(method.output, run as Streaming, calls), write, read, "serverStream");
    else throw new Error(`${path} streams its requests, which is not supported`);
  }
}
