/** The times of running copies, in milliseconds. Tests use shorter ones. */
export interface CopyTimes {
  /** How often the owner of a copy writes into its record. */
  readonly beat: number;
  /** An owner that could not write for this long ends its programs: less than `takeOver`. */
  readonly lost: number;
  /** A copy whose record has not changed for this long has no owner any more. */
  readonly takeOver: number;
  /** How long a new owner waits before it verifies that no other process has become the owner at the same time. */
  readonly settle: number;
  /**
   * How long a new owner waits whose write took longer than `settle`: until another one, which it has overwritten, has noticed that, which
   * takes a beat, or `lost` and a quarter of it. Less than `takeOver`.
   */
  readonly late: number;
  /** The first pause before a failed copy is tried again, and the longest. */
  readonly firstPause: number;
  readonly longestPause: number;
  /** How long a request waits for the end of a copy: less than the 10 s that external-provisioner waits by default. */
  readonly ask: number;
  /** How often the progress goes into the log at the least. */
  readonly tell: number;
  /** A copy of which no byte has arrived for this long stands still. */
  readonly stalled: number;
}

/** The times of a real process. */
export const usualTimes: CopyTimes = {
  beat: 30_000,
  lost: 60_000,
  takeOver: 90_000,
  settle: 2_000,
  late: 80_000,
  firstPause: 1_000,
  longestPause: 60_000,
  ask: 8_000,
  tell: 600_000,
  stalled: 600_000,
};

/** Seconds since 1970. */
export const seconds = (): number => Math.floor(Date.now() / 1_000);
