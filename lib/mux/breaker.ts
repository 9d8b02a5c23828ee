/** The number of failures in a row that starts the driver's own check. */
const failuresToCheck = 3;

/** The first and the longest interval between checks of an unreachable storage system, in milliseconds; it doubles each time. */
const firstMs = 1_000;
const longestMs = 60_000;

/** The part of each interval that is random, so that the connections of one storage system do not all return at once. */
const randomPart = 0.2;

/** A storage system is unreachable: it does not answer, or reports itself unavailable. */
export interface Outage {
  /** When that was detected (Date.now()). */
  readonly since: number;
  /** In how many milliseconds it is checked again; undefined while it is being checked. */
  readonly nextInMs: number | undefined;
  /** The result of its last check. */
  readonly reason: string;
}

/**
 * A circuit breaker. Only a failed check of the driver opens it, because calls also fail for a single stuck volume; any success of a
 * call or check closes it. Pure: its owner runs the checks and waits.
 */
export class Breaker {
  readonly #now: () => number;
  readonly #random: () => number;
  #failures = 0;
  #rounds = 0;
  #checking = false;
  /** Whether the storage's host accepted a connection when that was tried last. */
  #accepts = false;
  #outage: Omit<Outage, "nextInMs"> | undefined;
  /** When the next check is due, by `now`. */
  #due = 0;

  /** `now` returns milliseconds of a monotonic clock, `random` numbers from 0 to 1. */
  constructor(now: () => number = () => performance.now(), random: () => number = Math.random) {
    this.#now = now;
    this.#random = random;
  }

  /** Undefined while it is closed. */
  get outage(): Outage | undefined {
    if (!this.#outage) return undefined;
    return { ...this.#outage, nextInMs: this.#checking ? undefined : Math.max(0, this.#due - this.#now()) };
  }

  /** Records a call that could not reach the storage system. Returns whether the check must run now. */
  failed(): boolean {
    if (this.#outage || this.#checking) return false;
    this.#failures++;
    if (this.#failures < failuresToCheck) return false;
    this.#checking = true;
    return true;
  }

  /** Whether the check is running because calls failed. */
  get isDoubted(): boolean {
    return this.#checking;
  }

  /** Records a call that exceeded its time limit; one is enough. Returns whether the check must run now. */
  late(): boolean {
    if (this.#outage || this.#checking) return false;
    this.#failures = failuresToCheck;
    this.#checking = true;
    return true;
  }

  /** Records whether the host accepts connections. Returns whether it does so again: then the check runs now, and its intervals restart. */
  answered(accepts: boolean): boolean {
    const isBack = accepts && !this.#accepts;
    this.#accepts = accepts;
    if (isBack) this.#rounds = 0;
    return isBack;
  }

  /** The check runs again. */
  retried(): void {
    this.#checking = true;
  }

  /** Records a success of a call or the check. Returns whether the breaker was open. */
  succeeded(): boolean {
    const was = this.#outage !== undefined;
    this.#failures = 0;
    this.#rounds = 0;
    this.#accepts = false;
    this.#checking = false;
    this.#outage = undefined;
    return was;
  }

  /**
   * Records a failed check. Returns the milliseconds until the next one; undefined if a call has succeeded meanwhile: then the check
   * says nothing.
   */
  confirmed(reason: string): number | undefined {
    if (!this.#checking) return undefined;
    this.#checking = false;
    const ms = Math.min(longestMs, firstMs * 2 ** this.#rounds) * (1 - randomPart * this.#random());
    this.#rounds++;
    this.#due = this.#now() + ms;
    this.#outage = { since: this.#outage?.since ?? Date.now(), reason };
    return ms;
  }
}
