import type { CallBegun, CallEnd, CallObserver } from "../core/observer.ts";

/** A call that is in progress. */
export interface RunningCall extends CallBegun {
  /** When it began (Date.now()). */
  readonly since: number;
}

/** The last call of one kind that a connection answered. */
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

/** How the calls about one connection went. */
export interface CallRecord {
  readonly success: LastCall | undefined;
  readonly failure: LastFailure | undefined;
  /** The last failure that says something about the storage; others are about what the caller asked for. */
  readonly storageFailure: LastFailure | undefined;
}

/** Codes of failures that say something about the storage or csimux; the alert CsimuxConnectionFailing counts the same. */
const ofStorage: ReadonlySet<string> = new Set([
  ...["unavailable", "deadline-exceeded", "unauthenticated", "permission-denied", "internal"],
]);

/** Which calls run, and how the last ones about each connection ended. */
export class Ledger {
  readonly #running = new Set<RunningCall>();
  readonly #records = new Map<string, CallRecord>();

  /** Is told of every call. Its connections must be of a limited number: each is remembered. */
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

  /** Names about which there were calls. */
  names(): readonly string[] {
    return [...this.#records.keys()];
  }

  /** How the last calls about a connection ended. */
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
