import { CallError, Invalid, rpcErrorOf } from "./failure.ts";
import { queried } from "./query.ts";

/** Jobs: work that a method starts and that ends later. A restart forgets them, and their numbers begin anew. */

export interface Job {
  readonly id: number;
  readonly method: string;
  readonly arguments: readonly unknown[];
  state: "RUNNING" | "SUCCESS" | "FAILED" | "ABORTED";
  result: unknown;
  error: string | null;
  exc_info: object | null;
  readonly done: Promise<void>;
}

interface Open extends Job {
  end(state: Job["state"], change: Partial<Job>): void;
}

export class Jobs {
  /** How long a job takes, in milliseconds. */
  ms = 0;
  #jobs: Open[] = [];

  /** Runs `start` now and what it returns, if that is a function, when the job's time is over. */
  begin(method: string, args: readonly unknown[], start: () => unknown): Job {
    const job = this.#open(method, args);
    try {
      const rest = start();
      const end = () => this.#finish(job, typeof rest === "function" ? (rest as () => unknown) : () => rest);
      if (this.ms === 0) queueMicrotask(end);
      else setTimeout(end, this.ms);
    } catch (error) {
      queueMicrotask(() => this.#finish(job, () => Promise.reject(error)));
    }
    return job;
  }

  #open(method: string, args: readonly unknown[]): Open {
    let settle: () => void = () => undefined;
    const done = new Promise<void>(resolve => {
      settle = resolve;
    });
    const job: Open = {
      id: this.#jobs.length + 1,
      method,
      arguments: args,
      state: "RUNNING",
      result: null,
      error: null,
      exc_info: null,
      done,
      end(state, change) {
        if (job.state !== "RUNNING") return;
        Object.assign(job, change, { state });
        settle();
      },
    };
    this.#jobs.push(job);
    return job;
  }

  async #finish(job: Open, work: () => unknown): Promise<void> {
    if (job.state !== "RUNNING" || !this.#jobs.includes(job)) return;
    try {
      job.end("SUCCESS", { result: await work() });
    } catch (error) {
      if (!(error instanceof Invalid || error instanceof CallError)) throw error;
      const { data } = rpcErrorOf(error) as { readonly data: { readonly reason: string; readonly extra: unknown } };
      const type = error instanceof Invalid ? "VALIDATION" : "CallError";
      const errno = error instanceof Invalid ? 22 : error.errno;
      job.end("FAILED", { error: data.reason, exc_info: { repr: error.message, type, errno, extra: data.extra } });
    }
  }

  query(filters: unknown, options: unknown): unknown {
    const rows = this.#jobs.map(({ done: _, end: __, ...job }) => job);
    return queried(rows, filters, (options ?? {}) as object);
  }

  abort(id: unknown): void {
    this.#jobs.find(job => job.id === id)?.end("ABORTED", { error: "Aborted" });
  }

  /** As after a restart of the middleware. */
  forget(): void {
    this.#jobs = [];
  }
}
