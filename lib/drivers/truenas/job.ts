import { Semaphore } from "../../core/semaphore.ts";
import { pause } from "../../core/time.ts";
import { HttpError } from "../../io/dial.ts";
import { ApiError, type ApiRow, errnos, LostJob, problemsIn } from "./api-error.ts";
import { jobLimit, type Limits } from "./transport.ts";

/** As Client.call. */
export type OwnedCall = (
  owner: string,
  method: string,
  params: readonly unknown[],
  signal: AbortSignal,
) => Promise<unknown>;

/**
 * Jobs that share one lock of the whole system up to 25.10. One of them runs, and from 24.10 on at most five wait: a further one is
 * discarded, and the answer is the number of the last one that waits (middleware 24.10 to 25.10: plugins/filesystem_/acl.py, job.py,
 * service/decorators.py, lock_queue_size).
 */
const oneLock = /^filesystem\.(?:setperm|chown|setacl)$/;
/** How many of them csimux runs on a system at once. Others use the queue, too, so this alone proves nothing. */
const oneLockAtOnce = 4;

/**
 * Jobs whose work core.job_abort does not end: it cancels the coroutine that waits for zettarepl, which continues to send (Job.abort() in
 * job.py and run_onetime_replication_task() in plugins/zettarepl.py of TS-24.10.2.4 to TS-26.0.0-BETA.3). An aborted one would only look ended.
 */
const notAbortable = /^replication\./;

/** The fields of a first argument that name the subject of a job. */
const subjects = ["path", "target_dataset"] as const;

const firstLookMs = 20;
const lastLookMs = 2000;
const abortMs = 5000;

/**
 * Whether a method starts such a job by itself and waits for it: a dataset for SMB gets its access control list this way, and
 * does not get it if the job is discarded (do_create in plugins/pool_/dataset.py of 24.10 to 25.10).
 */
export const waitsForLock = (method: string, params: readonly unknown[]): boolean =>
  method === "pool.dataset.create" && (params[0] as ApiRow | undefined)?.["share_type"] === "SMB";

/** The turns of the jobs with the lock, and of what waits for them. */
export const lockTurns = (): Semaphore => new Semaphore(oneLockAtOnce);

/** Runs jobs of one system: as Api.job, for `owner`. `ask`: as Client.call; `turns`: those of lockTurns(). */
export function jobRunner(where: string, ask: OwnedCall, limits: Limits, turns: Semaphore): OwnedCall {
  /** Aborts the job if its number is still this job's: another's is never aborted. */
  async function abort(owner: string, job: JobProgress): Promise<void> {
    const signal = AbortSignal.timeout(abortMs);
    try {
      const id = await job.current(signal);
      if (id !== undefined) await ask(owner, "core.job_abort", [id], signal);
    } catch {
      // The job then runs to its end, and the next call finds what it has done.
    }
  }

  async function ended(owner: string, method: string, params: readonly unknown[], signal: AbortSignal) {
    const limitMs = jobLimit(method, limits);
    const limit = AbortSignal.timeout(limitMs);
    const both = AbortSignal.any([signal, limit]);
    const job = jobProgress((id, until) => ask(owner, "core.get_jobs", [[["id", "=", id]]], until), method, params);
    try {
      for (let wait = firstLookMs; ; wait = Math.min(wait * 2, lastLookMs)) {
        const end = await job.end(await ask(owner, method, params, both), both);
        if (end) return end.result;
        // The number belongs to another job: this one was discarded. Only jobs that can run twice are started again.
        if (!oneLock.test(method)) throw new LostJob(method);
        await pause(wait, both).catch(() => {});
      }
    } catch (error) {
      if (both.aborted && !notAbortable.test(method)) await abort(owner, job);
      if (!limit.aborted || signal.aborted) throw error;
      const state = notAbortable.test(method) ? "continues; the next call waits for its end" : "was aborted";
      const reason = `${method} did not end within ${limitMs / 1000} s and ${state}`;
      throw new HttpError(where, "timeout", reason, { cause: error });
    }
  }

  return (owner, method, params, signal) => {
    const work = () => ended(owner, method, params, signal);
    return oneLock.test(method) ? turns.run(work, signal, owner) : work();
  };
}

type JobProgress = ReturnType<typeof jobProgress>;

/** One job from its number to its end. `query`: asks for the jobs with a number. */
function jobProgress(
  query: (id: unknown, signal: AbortSignal) => Promise<unknown>,
  method: string,
  params: readonly unknown[],
) {
  let id: unknown;
  let started: string | undefined;

  /** The system's row for the job with this number; undefined if there is none. */
  async function rowOf(signal: AbortSignal): Promise<ApiRow | undefined> {
    const rows = await query(id, signal);
    const row: unknown = Array.isArray(rows) ? rows[0] : undefined;
    return typeof row === "object" && row !== null ? (row as ApiRow) : undefined;
  }

  /** Whether a row is this job's: after a restart, numbers are used again. Throws LostJob if the row was this job's before. */
  function isOurs(row: ApiRow): boolean {
    const now = row["time_started"] == null ? undefined : JSON.stringify(row["time_started"]);
    const same = row["method"] === method && isAbout(row["arguments"], params);
    if (started !== undefined && !(same && now === started)) throw new LostJob(method);
    if (same) started ??= now;
    return same;
  }

  return {
    /** The result; undefined if the number belongs to another job. Throws ApiError if the job failed, LostJob if it was forgotten. */
    async end(number: unknown, signal: AbortSignal): Promise<{ readonly result: unknown } | undefined> {
      id = number;
      started = undefined;
      for (let wait = firstLookMs; ; wait = Math.min(wait * 2, lastLookMs)) {
        const row = await rowOf(signal);
        if (!row) throw new LostJob(method);
        if (!isOurs(row)) return undefined;
        if (row["state"] === "SUCCESS") return { result: row["result"] };
        if (row["state"] === "FAILED" || row["state"] === "ABORTED") throw jobError(method, row);
        // If the call has ended, the next request fails with the name of the server.
        await pause(wait, signal).catch(() => {});
      }
    },
    /** The number, if the job with it is still this one. */
    async current(signal: AbortSignal): Promise<unknown> {
      const row = id === undefined ? undefined : await rowOf(signal);
      return row && isOurs(row) ? id : undefined;
    },
  };
}

const fieldsOf = (args: unknown): ApiRow => {
  const first: unknown = Array.isArray(args) ? args[0] : undefined;
  return typeof first === "object" && first !== null ? (first as ApiRow) : {};
};

/** Whether the arguments of a job name the same subject; the server may have completed the rest. */
const isAbout = (args: unknown, params: readonly unknown[]): boolean =>
  subjects.every(name => fieldsOf(args)[name] === fieldsOf(params)[name]);

function jobError(method: string, job: ApiRow): ApiError {
  const info = (job["exc_info"] ?? {}) as ApiRow;
  const problems = problemsIn(info["extra"]);
  const errno = typeof info["errno"] === "number" ? info["errno"] : problems.length > 0 ? errnos.invalid : errnos.fault;
  return new ApiError(method, errno, String(job["error"] ?? job["state"]), problems);
}
