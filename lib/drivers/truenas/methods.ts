/** Methods that change nothing. */
const reads = /\.(?:query|config|get_instance|get_jobs|getacl|stat|version|version_short|product_type|status|me|ping)$/;

/** Whether a method only reads, so that it may be asked again after its answer was lost. */
export const changesNothing = (method: string): boolean => reads.test(method);

/** How long the system may take, in milliseconds. */
export interface Limits {
  /** For a method that only reads. */
  readonly readMs: number;
  /** For any other method, and for a job that is no copy. */
  readonly changeMs: number;
  /** For a copy, which reads and writes a whole volume. */
  readonly copyMs: number;
  /** After this the call still waits, but neither its place nor its connection is kept for it. */
  readonly lateMs: number;
}

/** What csimux grants a real system: a reload of a service takes half a minute on a busy one. */
export const usualLimits: Limits = {
  readMs: 60_000,
  changeMs: 10 * 60_000,
  copyMs: 24 * 60 * 60_000,
  lateMs: 15_000,
};

/** How long a call of `method` may stay unanswered, in milliseconds. */
export const answerMs = (method: string, { readMs, changeMs }: Limits): number =>
  changesNothing(method) ? readMs : changeMs;

/** How long the job of `method` may take, in milliseconds. */
export const jobMs = (method: string, { changeMs, copyMs }: Limits): number =>
  method.startsWith("replication.") ? copyMs : changeMs;
