/** What a test wants to go wrong. */

/** The connection is cut at one request: before it has an effect, or after it and before the answer. */
export type When = "before" | "after";

/**
 * What else happens to one request: it has its effect and is never answered, never ends, is answered
 * with no JSON, or is answered after `slowMs`.
 */
export type Silence = "unanswered" | "hung" | "garbled" | "slow";

interface Mortal {
  readonly step: number;
  readonly when: When;
  count: number;
}

/** Requests that are lost, by the credential that they were sent with or by their method. */
export class Faults {
  /** How long a slow answer takes. */
  slowMs = 300;
  readonly #mortals = new Map<string, Mortal>();
  readonly #fates = new Map<string, () => When | undefined>();
  readonly #watched = new Map<string, (about: string) => Promise<boolean>>();
  #silent: { readonly method: RegExp; readonly how: Silence; times: number } | undefined;
  #once: { readonly method: RegExp; readonly when: When; skip: number } | undefined;

  /** From its n-th request on, counted from 1, everything of this credential is cut off, as with a process that was killed. */
  kill(credential: string, step: number, when: When): void {
    this.#mortals.set(credential, { step, when, count: 0 });
  }

  /** From now on, `fate` says of each request of this credential whether the connection is cut. */
  decide(credential: string, fate: () => When | undefined): void {
    this.#fates.set(credential, fate);
  }

  /** Before each request of this credential, `hasRoom` gets what it asks for; without room the request finds the pool full and does nothing. */
  watch(credential: string, hasRoom: (about: string) => Promise<boolean>): void {
    this.#watched.set(credential, hasRoom);
  }

  /** Whether this request of a credential finds the pool full. */
  async isFull(credential: string, about: string): Promise<boolean> {
    const hasRoom = this.#watched.get(credential);
    return hasRoom !== undefined && !(await hasRoom(about));
  }

  /** Whether a credential of `kill` got to its step. */
  killed(credential: string): boolean {
    const mortal = this.#mortals.get(credential);
    return mortal !== undefined && mortal.count >= mortal.step;
  }

  /** The connection is cut once, at the next request whose method fits; `skip` of them are let through first. */
  loseOnce(method: RegExp, when: When, skip = 0): void {
    this.#once = { method, when, skip };
  }

  /** The next `times` requests whose method fits are not answered as they should be; the connection stays. */
  silence(method: RegExp, how: Silence, times: number): void {
    this.#silent = { method, how, times };
  }

  /** Whether the loss of `loseOnce` is still to come. */
  get pending(): boolean {
    return this.#once !== undefined;
  }

  /** What happens to this request. */
  next(credential: string, method: string): When | Silence | undefined {
    const fate = this.#fates.get(credential)?.();
    if (fate) return fate;
    if (this.#silent && this.#silent.times > 0 && this.#silent.method.test(method)) {
      this.#silent.times--;
      return this.#silent.how;
    }
    const mortal = this.#mortals.get(credential);
    if (mortal) {
      mortal.count++;
      if (mortal.count > mortal.step) return "before";
      if (mortal.count === mortal.step) return mortal.when;
    }
    if (!this.#once?.method.test(method)) return undefined;
    if (this.#once.skip-- > 0) return undefined;
    const { when } = this.#once;
    this.#once = undefined;
    return when;
  }
}
