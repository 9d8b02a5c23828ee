// lib/observe: what people and monitors see of a running csimux. call-tracker.ts and metrics.ts count calls, status.ts
// composes the answer of `csimux status`, status-socket.ts and page-server.ts serve it and the metrics.

import type { CallBegun, CallEnd, CallObserver } from "../core/observer.ts";

/** A call that is in progress. */
export interface RunningCall extends CallBegun {
  /** When it started (Date.now()). */
  readonly since: number;
}

/** The last call with a given result for a connection. */
export interface LastCall {
  readonly method: string;
  /** When it ended (Date.now()). */
  readonly at: number;
}

/** The last call that failed. */
export interface LastFailure extends LastCall {
  readonly code: string;
  readonly message: string;
}

/** The last results of the calls for one connection. */
export interface CallRecord {
  readonly success: LastCall | undefined;
  readonly failure: LastFailure | undefined;
  /** The last failure caused by the storage system; others are caused by the request. */
  readonly storageFailure: LastFailure | undefined;
}

/** Codes of failures caused by the storage system or csimux; the alert CsimuxConnectionFailing counts the same. */
const ofStorage: ReadonlySet<string> = new Set([
  ...["unavailable", "deadline-exceeded", "unauthenticated", "permission-denied", "internal"],
]);

/** Records running calls, and the last results for each connection. */
export class CallTracker {
  readonly #running = new Set<RunningCall>();
  readonly #records = new Map<string, CallRecord>();

  /** Records every call. The set of connections must be bounded, because each is remembered. */
  readonly observe: CallObserver = begun => {
    const call = { ...begun, since: Date.now() };
    this.#running.add(call);
    return end => {
      this.#running.delete(call);
      if (end.connection !== undefined) this.#ended(end.connection, call.method, end);
    };
  };

  /** Calls in progress, the oldest first. */
  running(): readonly RunningCall[] {
    return [...this.#running];
  }

  /** The connections with recorded calls. */
  names(): readonly string[] {
    return [...this.#records.keys()];
  }

  /** The last results for a connection. */
  of(connection: string): CallRecord {
    return this.#records.get(connection) ?? nothing;
  }

  #ended(connection: string, method: string, { code, message = "" }: CallEnd): void {
    const before = this.of(connection);
    const last = { method, at: Date.now() };
    const failure = { ...last, code, message };
    if (code === "ok") this.#records.set(connection, { ...before, success: last });
    else this.#records.set(connection, { ...before, failure, ...(ofStorage.has(code) && { storageFailure: failure }) });
  }
}

const nothing: CallRecord = { success: undefined, failure: undefined, storageFailure: undefined };
