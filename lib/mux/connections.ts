import type { Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { isConnectionName } from "../core/handle.ts";
import { OrderedReads } from "../core/ordered-reads.ts";
import type { CacheTimeout } from "../core/proxy.ts";
import { mapLimit } from "../core/semaphore.ts";
import type { Ability } from "../drivers/driver.ts";
import type { Connection } from "./connection.ts";
import { type ConnectionFacts, type ConnectionFileState, ConnectionFileStates, type LastGood } from "./file-states.ts";
import { type Entry, Pool } from "./pool.ts";
import { badName, changedFamily, missing, unopened, type WhenUnavailable } from "./refusals.ts";

/** Where connection files come from. */
export interface ConnectionFiles {
  /** Sorted names of all connections. Throws "unavailable" when the folder cannot be read. */
  names(): Promise<readonly string[]>;
  /** The text of one file, or undefined when there is none. Throws CsiError when that cannot be told. */
  read(name: string): Promise<string | undefined>;
  /** The labels in the text of a file of which something else is wrong; undefined when they cannot be read either. */
  labels(name: string, text: string): Promise<Labels | undefined>;
}

type Labels = Connection["labels"];

/** What is known of one connection without looking at anything. */
export interface ConnectionState {
  readonly name: string;
  readonly state: ConnectionFileState;
  /** Since when it is so (Date.now()). */
  readonly since: number;
  /** Of its last good file; undefined when there was none since the start, or it is gone. */
  readonly facts: ConnectionFacts | undefined;
  /** Calls that use it now. */
  readonly inUse: number;
}

/** Checks the text, over the defaults of the main file, and opens the driver, without I/O. Throws CsiError "failed-precondition" that says what is wrong. */
export type Open = (name: string, text: string) => Connection;

/** How many files are looked at together. */
const width = 64;

/**
 * Name → open connection. The file is looked at on each use and compared by content, so a changed Secret takes effect
 * at the next call; a file that turned bad leaves the last good connection in service; a driver is closed only when its
 * last call has ended.
 */
export class Connections {
  readonly #files: ConnectionFiles;
  readonly #opener: () => Promise<Open>;
  readonly #defaults: () => object;
  readonly #states: ConnectionFileStates;
  readonly #pool: Pool;
  readonly #reads = new OrderedReads<string | undefined | CsiError>();

  /**
   * `opener` gives the function that opens; it is asked at the first use, so that the drivers need not be loaded before.
   * `defaults` is what that function reads besides the text: another object means that connections are to be opened anew.
   * `now` gives milliseconds.
   */
  constructor(
    files: ConnectionFiles,
    opener: () => Promise<Open>,
    defaults: () => object,
    timeout: CacheTimeout,
    log: Log,
    now: () => number = () => Date.now(),
  ) {
    this.#files = files;
    this.#opener = opener;
    this.#defaults = defaults;
    this.#states = new ConnectionFileStates(log, now);
    this.#pool = new Pool(timeout, log);
  }

  /** As ConnectionFiles.names. */
  names(): Promise<readonly string[]> {
    return this.#files.names();
  }

  /** Runs `work` on the connection that the file describes now; it stays open until `work` settles. */
  use<T>(name: string, then: WhenUnavailable, work: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#leased(name, work, why => {
      throw why(then);
    });
  }

  /** Keeps a connection that is in use open until `work` on it has settled, even when the call that uses it ends before. */
  keep(connection: Pick<Connection, "driver">, work: Promise<unknown>): void {
    this.#pool.keep(connection, work);
  }

  /** Every connection that is known (ConnectionFileStates.all), sorted by name, as it was when it was looked at last. */
  seen(): readonly ConnectionState[] {
    return this.#states.all().map(each => ({
      ...each,
      facts: this.#states.lastGood(each.name)?.connection,
      inUse: this.#pool.get(each.name)?.leases ?? 0,
    }));
  }

  /** The file of this name that a connection is made from; undefined when there was none since the start, or it is gone. */
  lastGood(name: string): LastGood | undefined {
    return this.#states.lastGood(name);
  }

  /** As `use` with "retry"; undefined for a connection without a file, or whose file could not be used since the start. */
  useIfHealthy<T>(name: string, work: (connection: Connection) => Promise<T>): Promise<T | undefined> {
    return this.#leased<T | undefined>(name, work, (why, state) => {
      // Whoever cannot even tell says nothing about the connection.
      if (state === undefined || state.kind === "good") throw why("retry");
      return undefined;
    });
  }

  /** Whether a connection that is in order can do this. Throws "unavailable" when the folder cannot be read. */
  async anyCan(name: Ability): Promise<boolean> {
    let found = false;
    const names = await this.names();
    const failures = await mapLimit(names, width, async connection => {
      // One is enough, so the others need not be opened for it.
      if (found) return undefined;
      const has = this.useIfHealthy(connection, async ({ driver }) => driver[name] !== undefined);
      const answer = await has.catch((error: unknown) => ({ error }));
      if (answer === true) found = true;
      return typeof answer === "object" ? answer : undefined;
    });
    const [failure] = failures.filter(each => each !== undefined);
    if (!found && failure) throw failure.error;
    return found;
  }

  /**
   * Looks at all files, so that the log tells of every change soon, and not when a call happens to need the connection.
   * Throws "unavailable" when the folder cannot be read.
   */
  async survey(): Promise<void> {
    const names = new Set(await this.names());
    for (const name of this.#states.present()) names.add(name);
    // Many at a time, because each may be on a mount that hangs; not all, because judging one takes its time.
    await mapLimit([...names], width, name => this.#look(name));
  }

  /**
   * The labels of a connection; where it cannot be opened, those that its file gives it all the same.
   * Throws "unavailable" when nobody can tell them.
   */
  async labels(name: string): Promise<Labels> {
    try {
      return await this.use(name, "retry", async ({ labels }) => labels);
    } catch (error) {
      const text = await this.#files.read(name);
      const labels = text === undefined ? undefined : await this.#files.labels(name, text);
      if (labels === undefined) throw error;
      return labels;
    }
  }

  /** Closes every connection that is not in use and waits for the closing. For the end of the process. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  /** Judges a file that is not what it was. A connection that was closed for want of calls stays closed. */
  async #look(name: string): Promise<void> {
    const text = await this.#read(name);
    const known = this.#states.get(name);
    const judged = typeof text === "string" && known && known.kind !== "gone" && this.#isNow(known, text);
    if (!judged) await this.useIfHealthy(name, async () => {});
  }

  async #leased<T>(
    name: string,
    work: (connection: Connection) => Promise<T>,
    unusable: (why: (then: WhenUnavailable) => CsiError, state: ConnectionFileState | undefined) => T,
  ): Promise<T> {
    if (!isConnectionName(name)) return unusable(() => badName(name), undefined);
    const text = await this.#read(name);
    if (text === undefined) {
      this.#pool.drop(name);
      this.#states.put(name, { kind: "gone" });
      return unusable(then => missing(name, then), { kind: "gone" });
    }
    const open = await this.#opener();
    // Nothing may come between finding the entry and its lease, or it could be closed.
    const entry = this.#current(name, text, open);
    return entry instanceof CsiError
      ? unusable(then => unopened(name, entry, then), this.#states.get(name))
      : this.#pool.lease(entry, work);
  }

  /** The text, undefined when there is no file, or why that cannot be told. */
  #read(name: string): Promise<string | undefined | CsiError> {
    return this.#reads.read(name, async () => {
      try {
        return await this.#files.read(name);
      } catch (error) {
        if (error instanceof CsiError) return error;
        throw error;
      }
    });
  }

  #isNow(seen: { readonly text: string | undefined; readonly defaults: object }, text: string): boolean {
    return seen.text === text && seen.defaults === this.#defaults();
  }

  /** The connection of a file, or what is wrong with it. Synchronous on purpose: two calls can never open the same text twice. */
  #current(name: string, text: string | CsiError, open: Open): Entry | CsiError {
    if (text instanceof CsiError) return this.#unread(name, text, open);
    const old = this.#pool.get(name);
    const known = this.#states.get(name);
    if (old && this.#isNow(old, text)) {
      if (known?.kind !== "good") this.#states.put(name, stateOf(old));
      return old;
    }
    if (known?.kind === "bad" && this.#isNow(known, text)) return this.#served(name, open) ?? known.error;
    try {
      const connection = open(name, text);
      const before = this.#states.lastGood(name);
      if (before && before.connection.family !== connection.family) throw changedFamily(before.connection, connection);
      const entry = this.#pool.add(connection, text, this.#defaults());
      this.#states.put(name, stateOf(entry));
      return entry;
    } catch (error) {
      if (!(error instanceof CsiError)) throw error;
      return this.#refused(name, text, error, open);
    }
  }

  /** A file that cannot be read has turned bad; of a folder that cannot be read, its files are not to blame. */
  #unread(name: string, error: CsiError, open: Open): Entry | CsiError {
    if (error.code === "unavailable") return this.#served(name, open) ?? error;
    return this.#refused(name, undefined, error, open);
  }

  #refused(name: string, text: string | undefined, error: CsiError, open: Open): Entry | CsiError {
    const served = this.#served(name, open);
    this.#states.put(name, { kind: "bad", text, defaults: this.#defaults(), error, served: served !== undefined });
    return served ?? error;
  }

  /** The last good connection of a file that cannot be used; opened again when it was closed for want of calls. */
  #served(name: string, open: Open): Entry | undefined {
    const old = this.#pool.get(name);
    const good = this.#states.lastGood(name);
    if (old || !good) return old;
    try {
      return this.#pool.add(open(name, good.text), good.text, good.defaults);
    } catch (error) {
      if (error instanceof CsiError) return undefined;
      throw error;
    }
  }
}

function stateOf({
  text,
  defaults,
  connection: { driverName, family, suspended, accessibleTopology: places, labels },
}: Entry): ConnectionFileState {
  return {
    kind: "good",
    text,
    defaults,
    connection: { driverName, family, suspended, accessibleTopology: places, labels },
  };
}
