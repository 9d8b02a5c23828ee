import type { HandlerContext } from "@connectrpc/connect";
import type { Deadline, Metadata } from "@grpc/grpc-js";
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
 * What a handler can learn of one call. The abort controller is created only when a handler asks for it, because most
 * calls do not need it.
 *
 * `signal` aborts with a CsiError at the deadline ("deadline-exceeded"), when the client cancels or disconnects
 * ("aborted") and when the server stops ("unavailable"); it does not abort when the call ends normally.
 */
export class CallContext implements Pick<HandlerContext, "signal"> {
  readonly #call: ServerCall;
  #ended = false;
  #reason: CsiError | undefined;
  #controller: AbortController | undefined;

  constructor(call: ServerCall) {
    this.#call = call;
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

  get metadata(): Metadata {
    return this.#call.metadata;
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
