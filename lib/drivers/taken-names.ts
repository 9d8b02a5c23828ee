/** How long a listing is valid, in milliseconds; names that other processes take meanwhile are seen later. */
const freshMs = 15 * 60_000;

/** The names of snapshots and what has them: pairs of a name and its holder. */
export type NamesAndHolders = Iterable<readonly [name: string, holder: string]>;

/**
 * Names of snapshots that may be taken, and where: a name is that of one snapshot of all volumes (CSI, CreateSnapshot). Listing them costs as much as
 * there are volumes, so that is done once in a while.
 */
export class TakenNames {
  readonly #list: (signal: AbortSignal) => Promise<NamesAndHolders>;
  readonly #now: () => number;
  #listed: ReadonlyMap<string, string> = new Map();
  /** Names that were taken after the listing began. */
  #added = new Map<string, string>();
  #since = Number.NEGATIVE_INFINITY;

  /** `now`: milliseconds of a monotonic clock. */
  constructor(list: (signal: AbortSignal) => Promise<NamesAndHolders>, now: () => number = () => performance.now()) {
    this.#list = list;
    this.#now = now;
  }

  /**
   * Takes a name for a snapshot of `holder`. Returns the holder of the snapshot that may have it already; undefined if there is none. Throws what
   * the listing throws.
   */
  async take(name: string, holder: string, signal: AbortSignal): Promise<string | undefined> {
    if (this.#now() - this.#since > freshMs) await this.#refresh(signal);
    const taken = this.#added.get(name) ?? this.#listed.get(name);
    this.#added.set(name, taken ?? holder);
    return taken;
  }

  /** Gives a name to another holder, after it turned out that the one of before does not have it. */
  give(name: string, holder: string): void {
    this.#added.set(name, holder);
  }

  async #refresh(signal: AbortSignal): Promise<void> {
    const began = this.#now();
    const listed = await this.#list(signal);
    // Names taken before the listing may be missing from it, so they are kept for another period.
    this.#listed = new Map([...listed, ...this.#added]);
    this.#added = new Map();
    this.#since = began;
  }
}
