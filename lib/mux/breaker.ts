/** So many failures in a row are a reason to ask the driver's own check. */
const suspicious = 3;

/** A storage that is away is asked again after so many milliseconds at first, then after twice as many each time, up to these. */
const firstMs = 1_000;
const longestMs = 60_000;

/** A part of each interval is left to chance, so that the connections of one storage do not all come back at once. */
const chance = 0.2;

/** A storage is away: it does not answer, or says that it is not there. */
export interface Outage {
  /** Since when that is known, in milliseconds. */
  readonly since: number;
  /** When it is asked again, in milliseconds. */
  readonly next: number;
  /** What its check came to last. */
  readonly reason: string;
}

/**
 * Whether a storage is spared calls, because it is away. Only the driver's own check can find that, for a single stuck volume
 * makes calls fail, too; any success of a call or of the check ends it. Pure: who owns it asks the check, and waits.
 */
export class Breaker {
  readonly #now: () => number;
  readonly #random: () => number;
  #failures = 0;
  #rounds = 0;
  #checking = false;
  #outage: Outage | undefined;

  /** `now` gives milliseconds, `random` numbers from 0 to 1. */
  constructor(now: () => number = () => Date.now(), random: () => number = () => Math.random()) {
    this.#now = now;
    this.#random = random;
  }

  /** Undefined while calls may be made. */
  get outage(): Outage | undefined {
    return this.#outage;
  }

  /** A call has failed as it does where the storage is away. True when the check is to be asked now. */
  failed(): boolean {
    if (this.#outage || this.#checking) return false;
    this.#failures++;
    if (this.#failures < suspicious) return false;
    this.#checking = true;
    return true;
  }

  /** Whether its check is being asked because calls failed, so that it is not known whether the storage is away. */
  get isDoubted(): boolean {
    return this.#checking;
  }

  /** A question was not answered in time: once is enough. True when the check is to be asked now. */
  late(): boolean {
    if (this.#outage || this.#checking) return false;
    this.#failures = suspicious;
    this.#checking = true;
    return true;
  }

  /** The check is asked again. */
  retried(): void {
    this.#checking = true;
  }

  /** A call or the check has succeeded. True when the storage was away until now. */
  succeeded(): boolean {
    const was = this.#outage !== undefined;
    this.#failures = 0;
    this.#rounds = 0;
    this.#checking = false;
    this.#outage = undefined;
    return was;
  }

  /**
   * The check has found the storage away: milliseconds until it is to be asked again. Undefined when a call has succeeded while the
   * check ran: then it says nothing.
   */
  confirmed(reason: string): number | undefined {
    if (!this.#checking) return undefined;
    this.#checking = false;
    const ms = Math.min(longestMs, firstMs * 2 ** this.#rounds) * (1 - chance * this.#random());
    this.#rounds++;
    const now = this.#now();
    this.#outage = { since: this.#outage?.since ?? now, next: now + ms, reason };
    return ms;
  }
}
