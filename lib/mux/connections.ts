import type { Log } from "../core/call.ts";
import { CsiError } from "../core/errors.ts";
import { isConnectionName } from "../core/handle.ts";
import { OrderedReads } from "../core/ordered-reads.ts";
import type { CacheTimeout } from "../core/proxy.ts";
import { mapLimit } from "../core/semaphore.ts";
import {
  type Connection,
  ConnectionRecord,
  fileOf,
  filesAtOnce,
  forgetMs,
  newVersion,
  type OpenConnection,
  type ValidFile,
} from "./connection.ts";
import { type ConnectionLease, Pool } from "./pool.ts";
import { badName, changedFamily, missing, type Unusable, unopened, type WhenUnavailable } from "./unusable.ts";

/** Where connection files come from. */
export interface ConnectionFiles {
  /** Sorted names of all connections. Throws "unavailable" if the folder cannot be read. */
  names(): Promise<readonly string[]>;
  /** The text of one file, or undefined if there is none. Throws CsiError if that cannot be determined. */
  read(name: string): Promise<string | undefined>;
  /** The labels in a file that is otherwise invalid; undefined if they cannot be read either. */
  labels(name: string, text: string): Promise<Labels | undefined>;
}

type Labels = Connection["labels"];

/**
 * Checks the text of a file, over the defaults of the main file, and opens the driver; reads only the files that the text names. Calls
 * `named`, also before it throws, with a function that tells whether those files are as they were read. Throws CsiError
 * "failed-precondition" with what is wrong.
 */
export type Open = (name: string, text: string, named: (areEqual: () => boolean) => void) => Connection;

/** A file as it was read: its text, undefined if there is none, or why that cannot be determined. */
interface ReadFile {
  readonly text: string | undefined | CsiError;
  readonly open: Open;
}

/**
 * The connections by name, and all that is known of each. The file is checked on each use and compared by content, so a changed
 * Secret takes effect at the next call; a file that becomes invalid leaves the last valid connection in service; a driver is closed
 * only after its last call.
 */
export class Connections {
  readonly #files: ConnectionFiles;
  readonly #opener: () => Promise<Open>;
  readonly #defaults: () => object;
  readonly #log: Log;
  readonly #now: () => number;
  /** When this process began to read files. */
  readonly #began: number;
  readonly #pool: Pool;
  readonly #records = new Map<string, ConnectionRecord>();
  readonly #reads = new OrderedReads<string | undefined | CsiError>();

  /**
   * `opener` returns the function that opens; it is called at the first use, so that drivers are not loaded before. `defaults`
   * returns what that function reads besides the text: another object means that connections must be reopened. `now` returns
   * milliseconds of a monotonic clock.
   */
  constructor(
    files: ConnectionFiles,
    opener: () => Promise<Open>,
    defaults: () => object,
    timeout: CacheTimeout,
    log: Log,
    now: () => number = () => performance.now(),
  ) {
    this.#files = files;
    this.#opener = opener;
    this.#defaults = defaults;
    this.#log = log;
    this.#now = now;
    this.#began = now();
    this.#pool = new Pool(timeout, log);
  }

  /** Like ConnectionFiles.names. */
  names(): Promise<readonly string[]> {
    return this.#files.names();
  }

  /** The connection that the file describes now; it stays open until the lease is disposed of (`using`). */
  async lease(name: string, when: WhenUnavailable): Promise<ConnectionLease> {
    const open = this.#current(name, await this.#read(name));
    if ("isOut" in open) throw open.error(when);
    return this.#pool.lease(open);
  }

  /** Runs `work` on a leased connection. */
  async use<T>(name: string, when: WhenUnavailable, work: (connection: Connection) => Promise<T>): Promise<T> {
    using lease = await this.lease(name, when);
    return await work(lease.connection);
  }

  /** Like `use` with "retry"; returns undefined if the connection has no file, or one that was never valid since the start. */
  async useIfHealthy<T>(name: string, work: (connection: Connection) => Promise<T>): Promise<T | undefined> {
    const open = this.#current(name, await this.#read(name));
    if ("isOut" in open && open.isOut) return undefined;
    if ("isOut" in open) throw open.error("retry");
    using lease = this.#pool.lease(open);
    return await work(lease.connection);
  }

  /** Keeps a connection that is in use open until `work` has settled, even if the call that uses it ends before. */
  keep(connection: Pick<Connection, "driver">, work: Promise<unknown>): void {
    this.#pool.keep(connection, work);
  }

  /** What is known of a connection; undefined if it never had a file, or was forgotten. */
  record(name: string): ConnectionRecord | undefined {
    return this.#records.get(name);
  }

  /**
   * What is known of all connections, sorted by name, without reading a file. Drops the records of
   * removed connections that no call has named for an hour.
   */
  seen(): readonly ConnectionRecord[] {
    for (const { name, state, missed } of this.#records.values()) {
      if (state !== "gone" || this.#now() - missed < forgetMs) continue;
      this.#records.delete(name);
      const text = `connection "${name}" is forgotten: its file was removed, and no call has asked for it for an hour`;
      this.#log.info(text, { connection: name });
    }
    return [...this.#records.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /**
   * Reads all files, so that the log has every change soon, and not only when a call needs the connection. Throws "unavailable" if
   * the folder cannot be read.
   */
  async survey(): Promise<void> {
    const names = new Set(await this.names());
    for (const { name, state } of this.#records.values()) if (state !== "gone") names.add(name);
    // Many at once, because each may be on a mount that hangs; not all, because validating one takes time.
    await mapLimit([...names], filesAtOnce, name => this.#review(name));
  }

  /**
   * Reads again what a connection's file names, such as the file of a password. Returns whether that has changed, so that the next use
   * opens the connection again.
   */
  rereadNamed(name: string): boolean {
    const { open, rejected, lastValid } = this.#records.get(name) ?? {};
    const read = [open, rejected].flatMap(each => each?.version ?? []);
    if (read.every(each => each.isOld || each.areEqual())) return false;
    for (const each of [...read, lastValid?.version]) if (each) each.isOld = true;
    return true;
  }

  /**
   * The labels of a connection; if it cannot be opened, those in its file. Throws "unavailable" if they cannot be determined.
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

  /** Closes every connection that is not in use and waits for that. For the end of the process. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  /** Validates a file that has changed. A connection that was closed because it was idle stays closed. */
  async #review(name: string): Promise<void> {
    const { text } = await this.#read(name);
    const isOld = this.rereadNamed(name);
    const record = this.#records.get(name);
    const judged = record?.rejected ?? record?.lastValid;
    if (isOld || typeof text !== "string" || !judged || !this.#isPresent(judged, text))
      await this.useIfHealthy(name, async () => {});
  }

  /** Reads are ordered, so that a slow read of an old file does not replace the connection of the new one. */
  async #read(name: string): Promise<ReadFile> {
    const read = () => this.#files.read(name).catch(csiError);
    const text = isConnectionName(name) ? await this.#reads.read(name, read) : undefined;
    return { text, open: await this.#opener() };
  }

  #isPresent({ text, defaults, version }: JudgedFile, now: string): boolean {
    return text === now && defaults === this.#defaults() && !version?.isOld;
  }

  /**
   * The connection of a file, or why there is none. Synchronous: the same text is never opened twice, and nothing can close the
   * connection before the caller has leased it.
   */
  #current(name: string, { text, open }: ReadFile): OpenConnection | Unusable {
    if (!isConnectionName(name)) return { isOut: false, error: () => badName(name) };
    const known = this.#records.get(name);
    if (text === undefined) {
      if (known) this.#pool.drop(known);
      known?.remove();
      // Of an unknown name, the process before this one may know more.
      const mayBeUsed = known ? known.wasInService : this.#now() - this.#began < forgetMs;
      return { isOut: true, error: when => missing(name, known?.wasInService ? "retry" : when, mayBeUsed) };
    }
    const record = known ?? new ConnectionRecord(name, this.#log, this.#now);
    const found = text instanceof CsiError ? this.#unread(record, text, open) : this.#judged(record, text, open);
    if (!(found instanceof CsiError)) return found;
    const isOut = this.#records.has(name) && record.state !== "good";
    return { isOut, error: () => unopened(name, found) };
  }

  /** The connection of a file with this text, or what is wrong with it. */
  #judged(record: ConnectionRecord, text: string, open: Open): OpenConnection | CsiError {
    const { name, open: old, lastValid, rejected } = record;
    if (rejected && this.#isPresent(rejected, text)) return this.#served(record, open) ?? rejected.error;
    if (old && this.#isPresent(old, text)) {
      if (rejected) record.accept(fileOf(old));
      return old;
    }
    const [version, named] = newVersion();
    try {
      const connection = open(name, text, named);
      if (lastValid && lastValid.facts.family !== connection.family) throw changedFamily(lastValid.facts, connection);
      this.#records.set(name, record);
      const now = this.#pool.add(record, connection, { text, defaults: this.#defaults(), version });
      record.accept(fileOf(now));
      return now;
    } catch (error) {
      if (!(error instanceof CsiError)) throw error;
      return this.#rejected(record, { text, version }, error, open);
    }
  }

  /** A file that cannot be read counts as invalid, but not if the whole folder cannot be read. */
  #unread(record: ConnectionRecord, error: CsiError, open: Open): OpenConnection | CsiError {
    if (error.code === "unavailable") return this.#served(record, open) ?? error;
    return this.#rejected(record, { text: undefined, version: undefined }, error, open);
  }

  #rejected(record: ConnectionRecord, file: Pick<JudgedFile, "text" | "version">, error: CsiError, open: Open) {
    this.#records.set(record.name, record);
    const served = this.#served(record, open);
    record.reject({ ...file, defaults: this.#defaults(), error, served: served !== undefined });
    return served ?? error;
  }

  /** The last valid connection of a file that cannot be used; reopened if it was closed because it was idle, or a file that it names was changed. */
  #served(record: ConnectionRecord, open: Open): OpenConnection | undefined {
    const { name, open: old, lastValid } = record;
    if ((old && !old.version?.isOld) || !lastValid) return old;
    const [version, named] = newVersion();
    try {
      return this.#pool.add(record, open(name, lastValid.text, named), { ...lastValid, version });
    } catch (error) {
      // A file that it names is away or wrong: the one in use stays until the next survey.
      if (old?.version) old.version.isOld = false;
      return csiError(error) && old;
    }
  }
}

/** A file that was opened, or could not be. */
interface JudgedFile extends Omit<ValidFile, "text" | "facts"> {
  readonly text: string | undefined;
}

/** A CsiError as a value; rethrows any other error. */
function csiError(error: unknown): CsiError {
  if (error instanceof CsiError) return error;
  throw error;
}
