import type { CsiError } from "../core/errors.ts";
import type { CallContext } from "./context.ts";

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
