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
}

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
    this.#records.set(
      connection,
      code === "ok" ? { ...before, success: last } : { ...before, failure: { ...last, code, message } },
    );
  }
}

const nothing: CallRecord = { success: undefined, failure: undefined };
