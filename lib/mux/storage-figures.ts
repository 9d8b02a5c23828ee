import type { Page, PageRequest } from "../drivers/driver.ts";

/** A figure, and when it was true (Date.now()). */
export interface Sample<T> {
  readonly value: T;
  readonly at: number;
}

/** What csimux happens to know of a connection's storage. */
export interface KnownFigures {
  /** Bytes that a new volume may take. */
  readonly free: Sample<bigint> | undefined;
  readonly volumes: Sample<number> | undefined;
}

/** A listing that has not come to its end: the token it goes on with, and how many volumes there were until there. */
interface UnfinishedListing {
  readonly next: string;
  readonly count: number;
}

/**
 * What the answers to others have told of each storage. Whoever looks at csimux gets this instead of asking the storage, which
 * may be dead or slow.
 */
export class StorageFigures {
  readonly #free = new Map<string, Sample<bigint>>();
  readonly #volumes = new Map<string, Sample<number>>();
  readonly #begun = new Map<string, UnfinishedListing>();

  /** A connection has told how many bytes a new volume may take. */
  free(connection: string, value: bigint): void {
    this.#free.set(connection, { value, at: Date.now() });
  }

  /** A connection has given a page of its volumes. Only a listing that was followed to its end tells how many there are. */
  page(connection: string, { token }: PageRequest, { items, next }: Page<unknown>): void {
    const begun = this.#begun.get(connection);
    if (token !== undefined && begun?.next !== token) return;
    const count = items.length + (token === undefined ? 0 : (begun?.count ?? 0));
    if (next !== undefined) {
      this.#begun.set(connection, { next, count });
      return;
    }
    this.#begun.delete(connection);
    this.#volumes.set(connection, { value: count, at: Date.now() });
  }

  /** What is known now. */
  of(connection: string): KnownFigures {
    return { free: this.#free.get(connection), volumes: this.#volumes.get(connection) };
  }
}
