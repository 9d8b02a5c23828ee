import type { CacheTimeout } from "../core/cache-timeout.ts";
import type { Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { connectionNameForm, isConnectionName } from "../core/handle.ts";
import type { Connection } from "./connection.ts";
import { type Entry, Pool } from "./pool.ts";

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

/** Checks the text, over the defaults of the main file, and opens the driver, without I/O. Throws CsiError "failed-precondition" that says what is wrong. */
export type Open = (name: string, text: string) => Connection;

/**
 * Who named the connection decides the code for one that cannot be used: a class or a claim can be mended by its author
 * (a final answer), an existing volume must never be taken for gone (repeat until the file is back).
 */
export type Origin = "class" | "handle";

interface Rejected {
  /** Undefined when the file could not even be read. */
  readonly text: string | undefined;
  readonly defaults: object;
  readonly error: CsiError;
}

/**
 * Name → open connection. The file is looked at on each use and compared by content, so a changed Secret takes effect
 * at the next call; a file that turned bad leaves the last good connection in service; a driver is closed only when its
 * last call has ended.
 */
export class Connections {
  readonly #files: ConnectionFiles;
  readonly #opener: () => Promise<Open>;
  readonly #defaults: () => object;
  readonly #log: Log;
  readonly #rejected = new Map<string, Rejected>();
  readonly #pool: Pool;

  /**
   * `opener` gives the function that opens; it is asked at the first use, so that the drivers need not be loaded before.
   * `defaults` is what that function reads besides the text: another object means that connections are to be opened anew.
   */
  constructor(
    files: ConnectionFiles,
    opener: () => Promise<Open>,
    defaults: () => object,
    timeout: CacheTimeout,
    log: Log,
  ) {
    this.#files = files;
    this.#opener = opener;
    this.#defaults = defaults;
    this.#log = log;
    this.#pool = new Pool(timeout, name => this.#rejected.delete(name), log);
  }

  /** As ConnectionFiles.names. */
  names(): Promise<readonly string[]> {
    return this.#files.names();
  }

  /** Runs `work` on the connection that the file describes now; it stays open until `work` settles. */
  async use<T>(name: string, origin: Origin, work: (connection: Connection) => Promise<T>): Promise<T> {
    if (!isConnectionName(name))
      throw new CsiError(
        "invalid-argument",
        `"${name.slice(0, 80)}" cannot name a connection: use ${connectionNameForm}`,
      );
    const text = await this.#read(name);
    if (text === undefined) {
      this.#pool.drop(name);
      throw missing(name, origin);
    }
    const open = await this.#opener();
    // Nothing may come between finding the entry and its lease, or it could be closed.
    const entry = text instanceof CsiError ? this.#unread(name, text, origin) : this.#current(name, text, origin, open);
    return this.#pool.lease(entry, work);
  }

  /**
   * The labels of a connection; where it cannot be opened, those that its file gives it all the same.
   * Throws "unavailable" when nobody can tell them.
   */
  async labels(name: string): Promise<Labels> {
    try {
      return await this.use(name, "handle", async ({ labels }) => labels);
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

  /** The text, undefined when there is no file, or why that cannot be told. */
  async #read(name: string): Promise<string | undefined | CsiError> {
    try {
      return await this.#files.read(name);
    } catch (error) {
      if (error instanceof CsiError) return error;
      throw error;
    }
  }

  /** A file that cannot be read has turned bad. Without a last good one nothing is kept of it: the name may be anything. */
  #unread(name: string, error: CsiError, origin: Origin): Entry {
    const old = this.#pool.get(name);
    return old ? this.#refused(name, undefined, origin, error) : lastGood(name, old, error, origin);
  }

  /** Synchronous on purpose: two calls can never open the same text twice. */
  #current(name: string, text: string, origin: Origin, open: Open): Entry {
    const defaults = this.#defaults();
    const isNow = (seen: Entry | Rejected | undefined) => seen?.text === text && seen.defaults === defaults;
    const old = this.#pool.get(name);
    if (old && isNow(old)) {
      this.#rejected.delete(name);
      return old;
    }
    const rejected = this.#rejected.get(name);
    if (rejected && isNow(rejected)) return lastGood(name, old, rejected.error, origin);
    try {
      const connection = open(name, text);
      if (old && old.connection.family !== connection.family) throw changedFamily(old.connection, connection);
      this.#rejected.delete(name);
      return this.#pool.add(connection, text, defaults);
    } catch (error) {
      return this.#refused(name, text, origin, error);
    }
  }

  /** Reports a file that cannot be used, once, and answers the last good connection. */
  #refused(name: string, text: string | undefined, origin: Origin, error: unknown): Entry {
    if (!(error instanceof CsiError)) throw error;
    const old = this.#pool.get(name);
    const before = this.#rejected.get(name);
    this.#rejected.set(name, { text, defaults: this.#defaults(), error });
    if (before === undefined || before.text !== text || before.error.message !== error.message) {
      this.#log.warn(`connection "${name}" is degraded: its file cannot be used`, {
        connection: name,
        reason: error.message,
        lastGood: old !== undefined,
      });
    }
    return lastGood(name, old, error, origin);
  }
}

/** Throws, where there is none: the code of the error to a class, "unavailable" for a handle. */
function lastGood(name: string, old: Entry | undefined, error: CsiError, origin: Origin): Entry {
  if (old) return old;
  throw new CsiError(
    origin === "class" ? error.code : "unavailable",
    `connection "${name}" cannot be opened: ${error.message}`,
  );
}

const missing = (name: string, origin: Origin): CsiError =>
  origin === "class"
    ? new CsiError(
        "invalid-argument",
        `connection "${name}" is not configured; add the file ${name}.yaml or correct the class`,
      )
    : new CsiError("unavailable", `connection "${name}" is not configured any more; restore its file ${name}.yaml`);

const changedFamily = (old: Connection, now: Connection): CsiError =>
  new CsiError(
    "failed-precondition",
    `driver changed from "${old.driverName}" to "${now.driverName}", which cannot serve the same volumes; use a new connection name`,
  );
