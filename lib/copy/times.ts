/** The times of running copies, in milliseconds. Tests use shorter ones. */
export interface CopyTimes {
  /** How often the owner of a copy writes into its record. */
  readonly beat: number;
  /** An owner that could not write for this long ends its programs: less than `takeOver`. */
  readonly lost: number;
  /** A copy whose record has not changed for this long no longer has an owner. */
  readonly takeOver: number;
  /** How long a new owner waits before it verifies that no other process has become the owner at the same time. */
  readonly settle: number;
  /**
   * How long a new owner waits if its write took longer than `settle`. The write may have replaced that of another owner, which notices it
   * after a beat, or at the latest after 1.25 times `lost`. Less than `takeOver`.
   */
  readonly late: number;
  /** How long a file must have been unchanged when a pass by files begins, for the next pass to skip its content. */
  readonly unchanged: number;
  /** The first pause before a failed copy is tried again, and the longest. */
  readonly firstPause: number;
  readonly longestPause: number;
  /** How long a copy runs at least before it waits for its next turn, while others wait for theirs. */
  readonly turn: number;
  /** How long a request waits for the end of a copy: less than the 10 s that external-provisioner waits by default. */
  readonly ask: number;
  /** The longest time between two log lines about progress. */
  readonly tell: number;
  /** A copy that has received no data for this long is reported as stalled. */
  readonly stalled: number;
}

/** The times of a real process. */
export const usualTimes: CopyTimes = {
  beat: 30_000,
  lost: 60_000,
  takeOver: 90_000,
  settle: 2_000,
  late: 80_000,
  unchanged: 600_000,
  firstPause: 1_000,
  longestPause: 60_000,
  turn: 300_000,
  ask: 8_000,
  tell: 600_000,
  stalled: 600_000,
};

/** Seconds since 1970. */
export const seconds = (): number => Math.floor(Date.now() / 1_000);
