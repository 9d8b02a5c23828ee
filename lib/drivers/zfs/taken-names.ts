/** How long a listing is believed, in milliseconds: what other processes take meanwhile is seen after that. */
const freshMs = 15 * 60_000;

/**
 * Names of snapshots that may be taken. A name must be one volume's only (CSI CreateSnapshot), and ZFS finds that out by naming all
 * snapshots of a pool; so they are listed once in a while, and not for every snapshot. Only a name that is here has to be looked
 * for.
 */
export class TakenNames {
  readonly #list: (signal: AbortSignal) => Promise<readonly string[]>;
  readonly #now: () => number;
  #listed: ReadonlySet<string> = new Set();
  /** Those that came after the listing was begun. */
  #added = new Set<string>();
  #since = Number.NEGATIVE_INFINITY;

  /** `now` gives milliseconds of a clock that never jumps. */
  constructor(list: (signal: AbortSignal) => Promise<readonly string[]>, now: () => number = () => performance.now()) {
    this.#list = list;
    this.#now = now;
  }

  /** Whether a snapshot may have this name, which is taken from now on. Throws what the listing throws. */
  async take(name: string, signal: AbortSignal): Promise<boolean> {
    if (this.#now() - this.#since > freshMs) await this.#refresh(signal);
    const taken = this.#listed.has(name) || this.#added.has(name);
    this.#added.add(name);
    return taken;
  }

  async #refresh(signal: AbortSignal): Promise<void> {
    const began = this.#now();
    const listed = await this.#list(signal);
    // What came before it was listed need not be in it yet, so it is kept once more.
    this.#listed = new Set([...listed, ...this.#added]);
    this.#added = new Set();
    this.#since = began;
  }
}
