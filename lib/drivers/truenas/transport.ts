/** The version of a TrueNAS system. */
export interface SystemVersion {
  /** As the system reports it. */
  readonly text: string;
  /** Year and month as one number, to compare: 2510 for 25.10, 1300 for CORE 13.0. */
  readonly number: number;
}

/** "v25.10.2", "TrueNAS-SCALE-24.10.2.4", "TrueNAS-13.0-U6.3" → its number; undefined for anything else. */
export function versionOf(text: string): SystemVersion | undefined {
  const match = /(?:^v?|-)([0-9]{1,2})\.([0-9]{1,2})(?![0-9])/.exec(text);
  return match ? { text, number: Number(match[1]) * 100 + Number(match[2]) } : undefined;
}

/** A logged-in connection to a system. Methods, parameters and errors are the same for REST and JSON-RPC. */
export interface ApiTransport {
  readonly version: SystemVersion;
  /** The answer of a method; a method that starts a job answers the job's number. Throws ApiError or HttpError. */
  call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown>;
  /** Whether no further calls are possible. */
  readonly over: boolean;
  close(): void;
}

/** Methods that change nothing. */
const reads = /\.(?:query|config|get_instance|get_jobs|getacl|stat|version|version_short|product_type|status|me|ping)$/;

/** Whether a method only reads, so that it can be repeated if its answer is lost. */
export const changesNothing = (method: string): boolean => reads.test(method);

/** Time limits for the system, in milliseconds. */
export interface Limits {
  /** For an answer. A method that starts a job answers at once. */
  readonly answerMs: number;
  /** For a job that is not a copy. */
  readonly jobMs: number;
  /** For a copy, which reads and writes a whole volume. */
  readonly copyMs: number;
  /** After this a call continues to wait, but no longer counts as one of the concurrent calls, and its connection gets no further ones. */
  readonly lateMs: number;
}

/**
 * The limits for a real system: to reload a service takes half a minute on a busy one. While an answer is awaited, no other call changes the
 * volume; if it was lost, the caller's next call finds out what was done.
 */
export const usualLimits: Limits = {
  answerMs: 60_000,
  jobMs: 10 * 60_000,
  copyMs: 24 * 60 * 60_000,
  lateMs: 15_000,
};

/** The time limit for the job of `method`, in milliseconds. */
export const jobLimit = (method: string, { jobMs, copyMs }: Limits): number =>
  method.startsWith("replication.") ? copyMs : jobMs;
