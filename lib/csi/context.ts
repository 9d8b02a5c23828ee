import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { type ContextValues, createContextValues, type HandlerContext } from "@connectrpc/connect";
import { type Deadline, Metadata } from "@grpc/grpc-js";
import { CsiError } from "../core/errors.ts";

/**
 * The part of a grpc-js call that a context uses. grpc-js sets and emits `cancelled` when the client or the deadline
 * ends the call.
 */
export interface ServerCall {
  readonly metadata: Metadata;
  readonly cancelled: boolean;
  getDeadline(): Deadline;
  once(event: "cancelled", listener: () => void): unknown;
}

/** One mounted RPC, shared by all its calls. */
export interface Rpc {
  readonly service: DescService;
  readonly method: DescMethod;
  readonly url: string;
}

/** Tolerance in milliseconds between the client's deadline timer and grpc-js', which may fire in either order. */
const deadlineToleranceMs = 5;

function remainingMs(call: ServerCall): number {
  const deadline = call.getDeadline();
  return Number(deadline) - Date.now();
}

function whyCancelled(call: ServerCall): CsiError {
  return remainingMs(call) <= deadlineToleranceMs
    ? new CsiError("deadline-exceeded", "the deadline of the call has passed")
    : new CsiError("aborted", "the client cancelled the call or disconnected");
}

/**
 * The context of one call. Creates headers, abort controller and context values only when a handler asks for them: most
 * calls need none of them, and together they cost more than the rest of the call.
 *
 * `signal` aborts with a CsiError at the deadline ("deadline-exceeded"), when the client cancels or disconnects
 * ("aborted") and when the server stops ("unavailable"); it does not abort when the call ends normally.
 */
export class CallContext implements HandlerContext {
  readonly protocolName = "grpc";
  readonly requestMethod = "POST";
  readonly #rpc: Rpc;
  readonly #call: ServerCall;
  #ended = false;
  #reason: CsiError | undefined;
  #controller: AbortController | undefined;
  #requestHeader: Headers | undefined;
  #responseHeader: Headers | undefined;
  #responseTrailer: Headers | undefined;
  #values: ContextValues | undefined;

  constructor(rpc: Rpc, call: ServerCall) {
    this.#rpc = rpc;
    this.#call = call;
  }

  get service(): DescService {
    return this.#rpc.service;
  }

  get method(): DescMethod {
    return this.#rpc.method;
  }

  get url(): string {
    return this.#rpc.url;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#reason) this.#controller.abort(this.#reason);
      else if (this.#call.cancelled) this.abort(whyCancelled(this.#call));
      else this.#call.once("cancelled", () => this.abort(whyCancelled(this.#call)));
    }
    return this.#controller.signal;
  }

  timeoutMs = (): number | undefined => {
    const left = remainingMs(this.#call);
    return left === Number.POSITIVE_INFINITY ? undefined : Math.max(0, left);
  };

  get requestHeader(): Headers {
    this.#requestHeader ??= toHeaders(this.#call.metadata);
    return this.#requestHeader;
  }

  get responseHeader(): Headers {
    this.#responseHeader ??= new Headers();
    return this.#responseHeader;
  }

  get responseTrailer(): Headers {
    this.#responseTrailer ??= new Headers();
    return this.#responseTrailer;
  }

  get values(): ContextValues {
    this.#values ??= createContextValues();
    return this.#values;
  }

  /** Aborts the signal; has no effect once the call has ended. */
  abort(reason: CsiError): void {
    if (this.#ended || this.#reason) return;
    this.#reason = reason;
    this.#controller?.abort(reason);
  }

  /** Marks the call as ended: grpc-js reports every call as cancelled once its answer is sent. */
  end(): void {
    this.#ended = true;
  }

  /** The headers set by the handler, if any. */
  sentHeader(): Metadata | undefined {
    return this.#responseHeader && toMetadata(this.#responseHeader);
  }

  /** The trailers set by the handler, if any. */
  sentTrailer(): Metadata | undefined {
    return this.#responseTrailer && toMetadata(this.#responseTrailer);
  }
}

/**
 * The calls with a running handler. A call remains here until its handler ends, even after its client has disconnected.
 */
export class ActiveCalls {
  readonly #contexts = new Set<CallContext>();
  #idle: (() => void) | undefined;
  #closed = false;
  #lastBegun = Number.NEGATIVE_INFINITY;

  get size(): number {
    return this.#contexts.size;
  }

  /** True after `close`: new calls must be refused. */
  get closed(): boolean {
    return this.#closed;
  }

  close(): void {
    this.#closed = true;
  }

  /** Milliseconds since the last call began; infinite before the first. */
  get quietMs(): number {
    return performance.now() - this.#lastBegun;
  }

  add(context: CallContext): void {
    this.#lastBegun = performance.now();
    this.#contexts.add(context);
  }

  remove(context: CallContext): void {
    context.end();
    this.#contexts.delete(context);
    if (this.#contexts.size === 0) this.#idle?.();
  }

  /** Resolves when no call is running, or after `limitMs` milliseconds. */
  whenIdle(limitMs: number): Promise<void> {
    if (this.#contexts.size === 0) return Promise.resolve();
    return new Promise(resolve => {
      const timer = setTimeout(resolve, limitMs);
      this.#idle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Aborts the signals of all running calls. */
  abort(reason: CsiError): void {
    for (const context of this.#contexts) context.abort(reason);
  }
}

/** Converts the request headers of a grpc-js call for Connect handlers; binary values stay base64. */
function toHeaders(metadata: Metadata): Headers {
  const headers = new Headers();
  for (const [name, values] of Object.entries(metadata.toHttp2Headers())) {
    if (values === undefined || name.startsWith(":")) continue;
    for (const value of Array.isArray(values) ? values : [values]) headers.append(name, String(value));
  }
  return headers;
}

/**
 * Converts a handler's headers to grpc-js metadata; names ending in "-bin" hold base64, several values separated by
 * commas.
 */
export function toMetadata(headers: Headers): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of headers) {
    if (!name.endsWith("-bin")) metadata.add(name, value);
    else for (const part of value.split(",")) metadata.add(name, Buffer.from(part.trim(), "base64"));
  }
  return metadata;
}
