import { later } from "../../waiting.ts";
import { CallError, Invalid, rpcErrorOf } from "./failure.ts";
import { queried } from "./query.ts";

/**
 * Jobs: work that a method starts and that ends later (job.py of TS-25.10.6). A restart forgets them, and numbers start again at 1. Of
 * more than 1,000 the oldest that has ended is dropped (JobsDeque.add).
 */
const kept = 1000;

export interface Job {
  readonly id: number;
  readonly method: string;
  readonly arguments: readonly unknown[];
  state: "WAITING" | "RUNNING" | "SUCCESS" | "FAILED" | "ABORTED";
  /** As the API shows a moment; null while it waits. */
  time_started: { readonly $date: number } | null;
  result: unknown;
  error: string | null;
  exc_info: object | null;
  readonly done: Promise<void>;
}

/** What only one job holds at a time. */
export interface Lock {
  readonly name: string;
  /** How many wait for it at most. */
  readonly queue: number;
}

/**
 * The lock of a job. Middleware 24.10 to 25.10 (plugins/filesystem_/acl.py, `@job(lock="perm_change")`): one for the whole system,
 * lock_queue_size=5 by default (service/decorators.py); up to 24.04 and on CORE the queue has no limit; from 26.0 each path has its own.
 */
export function lockOf(version: number, method: string, params: readonly unknown[]): Lock | undefined {
  if (!/^filesystem\.(?:setperm|chown|setacl)$/.test(method)) return undefined;
  const { path } = (params[0] ?? {}) as { readonly path?: unknown };
  return {
    name: version >= 2600 ? `perm_change:${path}` : "perm_change",
    queue: version < 2410 ? Number.POSITIVE_INFINITY : 5,
  };
}

/**
 * Whether the work of a job continues when it is aborted: core.job_abort cancels the coroutine that waits for the thread of
 * zettarepl.run_onetime_replication_task, and nothing tells zettarepl (Job.abort() and run() in job.py, run_onetime() in
 * plugins/replication.py, _run_replication_task_job() in plugins/zettarepl.py of TS-24.10.2.4, TS-25.10.6 and TS-26.0.0-BETA.3).
 */
const isEndless = ({ method }: Job): boolean => method === "replication.run_onetime";

/** Who starts a job, and what it waits for. */
export interface Start {
  readonly lock?: Lock | undefined;
  readonly user?: string | undefined;
  readonly fullAdmin: boolean;
}

const system: Start = { fullAdmin: true };

interface Open extends Job {
  readonly user: string | undefined;
  readonly lock: string | undefined;
  readonly run: () => void;
  end(state: Job["state"], change: Partial<Job>): void;
}

export class Jobs {
  /** How long a job takes, in milliseconds. */
  ms = 0;
  /** How many queries for jobs there were. */
  looks = 0;
  #held: Promise<void> | undefined;
  #jobs: Open[] = [];
  #last = 0;

  /** Jobs that begin from now on take until the returned function is called. */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#held = promise;
    return () => {
      this.#held = undefined;
      resolve();
    };
  }

  /**
   * Runs `start` once the job has its lock, and what it returns, if that is a function, when the job's time is over. A job too many
   * for the queue of its lock is discarded, and the last one that waits is answered (job.py, JobsQueue.add; 24.10 to 25.10), but only to
   * those who may see it.
   */
  begin(
    method: string,
    args: readonly unknown[],
    start: () => unknown,
    { lock, user, fullAdmin }: Start = system,
  ): Job {
    const same = this.#jobs.filter(job => lock !== undefined && job.lock === lock.name);
    const waiting = same.filter(({ state }) => state === "WAITING");
    const last = waiting.at(-1);
    if (lock && last && waiting.length >= lock.queue) {
      if (fullAdmin || last.user === user) return last;
      throw new CallError("EBUSY", "This job is already being performed by another user");
    }
    const job = this.#open(method, args, { lock: lock?.name, user }, () => this.#run(job, start));
    if (!same.some(({ state }) => state === "RUNNING")) job.run();
    return job;
  }

  #run(job: Open, start: () => unknown): void {
    job.state = "RUNNING";
    job.time_started = { $date: Date.now() };
    void job.done.then(() => {
      if (job.lock !== undefined) this.#jobs.find(next => next.lock === job.lock && next.state === "WAITING")?.run();
    });
    try {
      const rest = start();
      const end = () => this.#finish(job, typeof rest === "function" ? (rest as () => unknown) : () => rest);
      if (this.#held) void this.#held.then(end);
      else if (this.ms === 0) queueMicrotask(end);
      // A job that takes time.
      else later(end, this.ms);
    } catch (error) {
      queueMicrotask(() => this.#finish(job, () => Promise.reject(error)));
    }
  }

  #open(method: string, args: readonly unknown[], of: Pick<Open, "lock" | "user">, run: () => void): Open {
    let settle: () => void = () => undefined;
    const done = new Promise<void>(resolve => {
      settle = resolve;
    });
    const job: Open = {
      id: ++this.#last,
      method,
      arguments: args,
      state: "WAITING",
      time_started: null,
      ...of,
      run,
      result: null,
      error: null,
      exc_info: null,
      done,
      end(state, change) {
        if (job.state !== "RUNNING" && job.state !== "WAITING") return;
        Object.assign(job, change, { state });
        settle();
      },
    };
    if (this.#jobs.length > kept) {
      const oldest = this.#jobs.find(({ state }) => state !== "WAITING" && state !== "RUNNING");
      this.#jobs = this.#jobs.filter(each => each !== oldest);
    }
    this.#jobs.push(job);
    return job;
  }

  async #finish(job: Open, work: () => unknown): Promise<void> {
    if (!this.#jobs.includes(job) || (job.state !== "RUNNING" && !isEndless(job))) return;
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

  /** core.get_jobs: an account without FULL_ADMIN sees its own jobs alone (for_credential in job.py of TS-24.10.2.4 to TS-26.0.0-BETA.3). */
  query(filters: unknown, options: unknown, { user, fullAdmin }: Omit<Start, "lock"> = system): unknown {
    this.looks++;
    const seen = this.#jobs.filter(job => fullAdmin || job.user === user);
    const rows = seen.map(({ done: _, end: __, run: ___, lock: ____, user: _____, ...job }) => job);
    return queried(rows, filters, (options ?? {}) as object);
  }

  abort(id: unknown): void {
    this.#jobs.find(job => job.id === id)?.end("ABORTED", { error: "Aborted" });
  }

  /** As after a restart of the middleware. */
  forget(): void {
    this.#jobs = [];
    this.#last = 0;
  }
}
