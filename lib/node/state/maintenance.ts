import type { Log } from "../../core/call.ts";

/** Something that is looked at from time to time. Never throws, and ends with the signal. */
export interface PeriodicTask {
  run(log: Log, signal: AbortSignal): Promise<void>;
}

/** What this node does for its staged volumes without being asked: a slow loop over all there is to look at. */
export class Maintenance {
  readonly #tasks: readonly PeriodicTask[];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(looks: readonly PeriodicTask[]) {
    this.#tasks = looks;
  }

  /** Looks every `everyMs` milliseconds until `stop`; a look that takes its time delays the next one. */
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
