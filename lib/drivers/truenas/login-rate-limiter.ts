/** How often a server is tried. */

/** The server takes 20 logins of one address in a minute and refuses all further ones for a while; others may need some, too. */
const loginsAMinute = 12;
const firstMs = 1000;
const longestMs = 30_000;

/** When the next attempt to connect may be made: at once after a success, later and later after failures. */
export class LoginRateLimiter {
  readonly #now: () => number;
  #failures = 0;
  #notBefore = 0;
  #logins: readonly number[] = [];

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Milliseconds until the next attempt may be made; 0: now. */
  wait(): number {
    const now = this.#now();
    const recent = this.#logins.filter(time => now - time < 60_000);
    const budget = recent.length < loginsAMinute ? 0 : (recent[0] ?? now) + 60_000 - now;
    return Math.max(0, this.#notBefore - now, budget);
  }

  /** An attempt begins. */
  begun(): void {
    const now = this.#now();
    this.#logins = [...this.#logins.filter(time => now - time < 60_000), now];
  }

  succeeded(): void {
    this.#failures = 0;
    this.#notBefore = 0;
  }

  /** With jitter, so that many clients do not come back at once. */
  failed(): void {
    const delay = Math.min(longestMs, firstMs * 2 ** this.#failures);
    this.#failures++;
    this.#notBefore = this.#now() + delay * (0.5 + Math.random() / 2);
  }
}
