import { Semaphore } from "../../core/semaphore.ts";
import { pause } from "../../core/time.ts";
import { HttpError } from "../../io/dial.ts";
import { ApiError, errnos, LostJob, problemsIn, type Row } from "./api-error.ts";
import { jobMs, type Limits } from "./transport.ts";

/** As Client.call. */
export type AskSystem = (
  owner: string,
  method: string,
  params: readonly unknown[],
  signal: AbortSignal,
) => Promise<unknown>;

/** The system's row for the job with this number; undefined if there is none. */
type RowOf = (id: unknown, signal: AbortSignal) => Promise<Row | undefined>;

/**
 * Jobs that share one lock of the whole system up to 25.10. One of them runs, and from 24.10 on at most five wait: a further one is
 * discarded, and the answer is the number of the last one that waits (middleware 24.10 to 25.10: plugins/filesystem_/acl.py, job.py,
 * service/decorators.py, lock_queue_size).
 */
const oneLock = /^filesystem\.(?:setperm|chown|setacl)$/;
/** How many of them csimux runs on a system at once. Others use the queue, too, so this alone proves nothing. */
const oneLockAtOnce = 4;

/** The fields of a first argument that name the subject of a job. */
const subjects = ["path", "target_dataset"] as const;

const firstLookMs = 20;
const lastLookMs = 2000;
const abortMs = 5000;

/** Runs jobs of one system. */
export class JobRunner {
  readonly #where: string;
  readonly #ask: AskSystem;
  readonly #limits: Limits;
  readonly #oneLock = new Semaphore(oneLockAtOnce);

  constructor(where: string, ask: AskSystem, limits: Limits) {
    this.#where = where;
    this.#ask = ask;
    this.#limits = limits;
  }

  /** As Api.job. */
  run(owner: string, method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const work = () => this.#ended(owner, method, params, signal);
    return oneLock.test(method) ? this.#oneLock.run(work, signal, owner) : work();
  }

  async #ended(owner: string, method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    const limitMs = jobMs(method, this.#limits);
    const limit = AbortSignal.timeout(limitMs);
    const both = AbortSignal.any([signal, limit]);
    const job = new JobProgress((id, until) => this.#row(owner, id, until), method, params);
    try {
      for (let wait = firstLookMs; ; wait = Math.min(wait * 2, lastLookMs)) {
        const id = await this.#ask(owner, method, params, both);
        const end = await job.end(id, both);
        if (end) return end.result;
        // The number belongs to another job: this one was discarded. Only jobs that can run twice are started again.
        if (!oneLock.test(method)) throw new LostJob(method);
        await pause(wait, both).catch(() => {});
      }
    } catch (error) {
      if (both.aborted) await this.#abort(owner, job);
      if (!limit.aborted || signal.aborted) throw error;
      const reason = `${method} did not end within ${limitMs / 1000} s and was aborted`;
      throw new HttpError(this.#where, "timeout", reason, { cause: error });
    }
  }

  async #row(owner: string, id: unknown, signal: AbortSignal): Promise<Row | undefined> {
    const rows = await this.#ask(owner, "core.get_jobs", [[["id", "=", id]]], signal);
    const row: unknown = Array.isArray(rows) ? rows[0] : undefined;
    return typeof row === "object" && row !== null ? (row as Row) : undefined;
  }

  /** Aborts the job if its number is still this job's: another's is never aborted. */
  async #abort(owner: string, job: JobProgress): Promise<void> {
    const signal = AbortSignal.timeout(abortMs);
    try {
      const id = await job.current(signal);
      if (id !== undefined) await this.#ask(owner, "core.job_abort", [id], signal);
    } catch {
      // The job then runs to its end, and the next call finds what it has done.
    }
  }
}

/** One job from its number to its end. */
class JobProgress {
  readonly #row: RowOf;
  readonly #method: string;
  readonly #params: readonly unknown[];
  #id: unknown;
  #started: string | undefined;

  constructor(row: RowOf, method: string, params: readonly unknown[]) {
    this.#row = row;
    this.#method = method;
    this.#params = params;
  }

  /** The result; undefined if the number belongs to another job. Throws ApiError if the job failed, LostJob if it was forgotten. */
  async end(id: unknown, signal: AbortSignal): Promise<{ readonly result: unknown } | undefined> {
    this.#id = id;
    this.#started = undefined;
    for (let wait = firstLookMs; ; wait = Math.min(wait * 2, lastLookMs)) {
      const row = await this.#row(id, signal);
      if (!row) throw new LostJob(this.#method);
      if (!this.#isOurs(row)) return undefined;
      if (row["state"] === "SUCCESS") return { result: row["result"] };
      if (row["state"] === "FAILED" || row["state"] === "ABORTED") throw jobError(this.#method, row);
      // If the call has ended, the next request fails with the name of the server.
      await pause(wait, signal).catch(() => {});
    }
  }

  /** The number, if the job with it is still this one. */
  async current(signal: AbortSignal): Promise<unknown> {
    const row = this.#id === undefined ? undefined : await this.#row(this.#id, signal);
    return row && this.#isOurs(row) ? this.#id : undefined;
  }

  /** Whether a row is this job's: after a restart, numbers are used again. Throws LostJob if the row was this job's before. */
  #isOurs(row: Row): boolean {
    const started = row["time_started"] == null ? undefined : JSON.stringify(row["time_started"]);
    const same = row["method"] === this.#method && isAbout(row["arguments"], this.#params);
    if (this.#started !== undefined && !(same && started === this.#started)) throw new LostJob(this.#method);
    if (same) this.#started ??= started;
    return same;
  }
}

const fieldsOf = (args: unknown): Row => {
  const first: unknown = Array.isArray(args) ? args[0] : undefined;
  return typeof first === "object" && first !== null ? (first as Row) : {};
};

/** Whether the arguments of a job name the same subject; the server may have completed the rest. */
const isAbout = (args: unknown, params: readonly unknown[]): boolean =>
  subjects.every(name => fieldsOf(args)[name] === fieldsOf(params)[name]);

function jobError(method: string, job: Row): ApiError {
  const info = (job["exc_info"] ?? {}) as Row;
  const problems = problemsIn(info["extra"]);
  const errno = typeof info["errno"] === "number" ? info["errno"] : problems.length > 0 ? errnos.invalid : errnos.fault;
  return new ApiError(method, errno, String(job["error"] ?? job["state"]), problems);
}
