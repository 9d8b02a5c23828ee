import type { LookupAddress } from "node:dns";
import { lookup } from "node:dns/promises";
import type { LookupFunction } from "node:net";
import { Semaphore } from "../core/semaphore.ts";

/** How many names are resolved at once, of those that no name server answered last time. */
const doubtfulAtOnce = 2;
/** How many of the others: with a name server that answers late, all must be resolved before their callers give up. */
const usualAtOnce = 6;

/** A failure after a longer time means that no name server answers for the name, in milliseconds. */
const slowMs = 1_000;

/** The number of doubtful names beyond which they are forgotten. */
const manyNames = 256;

/** The addresses of a host. Throws as node:dns does. */
export type Resolve = (host: string) => Promise<readonly LookupAddress[]>;

/**
 * Resolves the names of hosts. A name that no name server answers holds a thread for many seconds (resolv.conf(5)), so only a few are
 * resolved at once: files need the other threads (64 for the process, see UV_THREADPOOL_SIZE). Names that no server answered before have
 * slots of their own, so that no other name waits for them.
 */
export class HostNames {
  readonly #resolve: Resolve;
  readonly #usual = new Semaphore(usualAtOnce);
  readonly #doubtful = new Semaphore(doubtfulAtOnce);
  readonly #unanswered = new Set<string>();
  readonly #pending = new Map<string, Promise<readonly LookupAddress[]>>();
  readonly #now: () => number;

  /** `now` returns milliseconds. */
  constructor(resolve: Resolve = host => lookup(host, { all: true }), now = () => performance.now()) {
    this.#resolve = resolve;
    this.#now = now;
  }

  /** Callers that ask for the same name at the same time share an answer. */
  addressesOf(host: string): Promise<readonly LookupAddress[]> {
    const pending = this.#pending.get(host);
    if (pending) return pending;
    const slots = this.#unanswered.has(host) ? this.#doubtful : this.#usual;
    const answer = slots.run(() => this.#watched(host)).finally(() => this.#pending.delete(host));
    this.#pending.set(host, answer);
    return answer;
  }

  /** For `connect` of node:net and node:tls. */
  readonly lookup: LookupFunction = (host, { all }, done) => {
    this.addressesOf(host).then(
      found => {
        const [first] = found;
        if (all) done(null, [...found]);
        else done(null, first?.address ?? "", first?.family);
      },
      (error: NodeJS.ErrnoException) => done(error, []),
    );
  };

  async #watched(host: string): Promise<readonly LookupAddress[]> {
    const begun = this.#now();
    this.#unanswered.delete(host);
    try {
      return await this.#resolve(host);
    } catch (error) {
      if (this.#unanswered.size >= manyNames) this.#unanswered.clear();
      if (this.#now() - begun > slowMs) this.#unanswered.add(host);
      throw error;
    }
  }
}

/** The names that this process connects to. */
export const hostNames = new HostNames();
