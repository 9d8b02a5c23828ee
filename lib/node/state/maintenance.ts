import type { Log } from "../../core/call.ts";

/** A task that runs periodically. Never throws, and ends with the signal. */
export interface PeriodicTask {
  run(log: Log, signal: AbortSignal): Promise<void>;
}

/** Runs the node's periodic tasks for staged volumes, such as health checks. */
export class Maintenance {
  readonly #tasks: readonly PeriodicTask[];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(tasks: readonly PeriodicTask[]) {
    this.#tasks = tasks;
  }

  /** Runs all tasks every `everyMs` milliseconds until `stop`; a slow run delays the next one. */
  start(everyMs: number, log: Log): void {
    this.#timer = setTimeout(() => {
      const signal = AbortSignal.timeout(everyMs);
      void Promise.all(this.#tasks.map(each => each.run(log, signal))).finally(() => {
        if (this.#timer) this.start(everyMs, log);
      });
    }, everyMs);
    this.#timer.unref();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
