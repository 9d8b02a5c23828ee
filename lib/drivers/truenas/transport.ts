/** The version of a TrueNAS system. */
export interface Version {
  /** As the system says it. */
  readonly text: string;
  /** Year and month as one number, to compare: 2510 for 25.10, 1300 for CORE 13.0. */
  readonly number: number;
}

/** "v25.10.2", "TrueNAS-SCALE-24.10.2.4", "TrueNAS-13.0-U6.3" → its number; undefined for anything else. */
export function versionOf(text: string): Version | undefined {
  const match = /(?:^v?|-)([0-9]{1,2})\.([0-9]{1,2})(?![0-9])/.exec(text);
  return match ? { text, number: Number(match[1]) * 100 + Number(match[2]) } : undefined;
}

/** One way to speak to a system: the same methods, parameters and errors whichever it is. */
export interface Transport {
  readonly version: Version;
  /** The answer of a method; a job's method answers the number of the job. Throws ApiError or HttpError. */
  call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown>;
  /** True once nothing can be asked this way any more. */
  readonly over: boolean;
  close(): void;
}
