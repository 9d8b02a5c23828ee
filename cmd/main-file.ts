import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { type ProxyConfig, type ReadProxy, readProxyConfig } from "../lib/config/proxy.ts";
import type { Log } from "../lib/core/call.ts";
import { CsiError, errnoOf } from "../lib/core/errors.ts";
import { TimeLimit } from "../lib/core/time.ts";
import { readSmallFile } from "../lib/io/small-file.ts";
import { inWords, reasons } from "../lib/schema/finding.ts";
import type { ValueResolver } from "../lib/schema/value-resolver.ts";

/** The main file is looked at again at most this often, in milliseconds, and only when a call comes. */
const freshMs = 1_000;

/** How long the main file may take to be read again, in milliseconds: a call waits for it. */
const patienceMs = 2_000;

/** A file larger than this is no main file. */
const maxBytes = 4 << 20;

/**
 * The main file, kept current. A change that is wrong leaves the last good configuration in place. Groups, the legacy
 * connection, listing and placement follow at the next call; the rest needs a new start, which is logged.
 */
export class MainFile {
  readonly #path: string;
  readonly #outside: ValueResolver;
  readonly #log: Log;
  /** The text that was judged last, and what was wrong with it. */
  #text: string;
  #fault: unknown;
  #config: ProxyConfig;
  #looked = Date.now();
  /** Why the file could not be used when it was last looked at; each reason is logged once. */
  #complaint: string | undefined;
  readonly #limit = new TimeLimit(patienceMs);
  #last: Promise<void> = Promise.resolve();

  private constructor(path: string, text: string, config: ProxyConfig, outside: ValueResolver, log: Log) {
    this.#path = path;
    this.#text = text;
    this.#config = config;
    this.#outside = outside;
    this.#log = log;
  }

  /** Throws "failed-precondition" when the file cannot be read or used. */
  static async load(path: string, outside: ValueResolver, log: Log): Promise<MainFile> {
    const text = await readMainText(path);
    const config = await parsed(path, text, outside, log);
    if (config.single !== undefined)
      log.info("the main file configures one driver, which is the only connection", { path });
    return new MainFile(path, text, config, outside, log);
  }

  get config(): ProxyConfig {
    return this.#config;
  }

  /** The text that was read last; of a main file that is a connection itself, that of the connection. */
  get text(): string {
    return this.#text;
  }

  /** The folder that the file lies in. */
  get folder(): string {
    return dirname(this.#path);
  }

  /** As `look`, at most once a second: for what every call does. */
  async refresh(): Promise<void> {
    if (Date.now() - this.#looked < freshMs) return;
    this.#looked = Date.now();
    await this.look();
  }

  /** Takes over a changed file. Never throws: what was good stays. Looks come one after the other, so an old text never follows a new one. */
  look(): Promise<void> {
    this.#last = this.#last.then(() => this.#lookNow());
    return this.#last;
  }

  async #lookNow(): Promise<void> {
    try {
      await this.#take(await this.#read());
      this.#complaint = undefined;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (reason !== this.#complaint)
        this.#log.warn("the main file cannot be used, the last good one stays", { reason });
      this.#complaint = reason;
    }
  }

  async #read(): Promise<string> {
    const unread = (why: string) => new CsiError("failed-precondition", `the main file ${this.#path} ${why}`);
    const text = await this.#limit.ask(
      this.#path,
      () => readSmallFile(this.#path, maxBytes),
      () => unread("does not answer"),
    );
    if (text === undefined) throw unread("is gone");
    return text;
  }

  /** Each text is judged once, for that takes a while. Throws what is wrong with it. */
  async #take(text: string): Promise<void> {
    if (text !== this.#text) {
      this.#text = text;
      this.#fault = undefined;
      try {
        this.#apply(await parsed(this.#path, text, this.#outside, this.#log));
      } catch (error) {
        this.#fault = error;
      }
    }
    if (this.#fault !== undefined) throw this.#fault;
  }

  #apply(config: ProxyConfig): void {
    if (config.single !== this.#config.single) {
      // Ids mean something else then: those of volumes in use must not become unknown while csimux runs.
      throw new CsiError(
        "failed-precondition",
        `the driver changed ${config.single === undefined ? 'to "proxy"' : 'from "proxy"'}: restart to apply it`,
      );
    }
    if (needsStart(this.#config) !== needsStart(config)) {
      this.#log.warn(
        "the main file changed in configFolder, cacheTimeoutMinutes, nodeTopology or nodeId: restart to apply it",
      );
    }
    // Whoever made something from equal defaults need not make it again.
    const { defaults } = this.#config;
    this.#config = isDeepStrictEqual(config.defaults, defaults) ? { ...config, defaults } : config;
    this.#log.info("the main file was read again");
  }
}

const needsStart = ({ configFolder, cacheTimeout, nodeTopology, nodeId }: ProxyConfig): string =>
  JSON.stringify([configFolder, cacheTimeout, nodeTopology, nodeId]);

/** The text of a main file. Throws "failed-precondition" that says why it cannot be read. */
export async function readMainText(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    const code = errnoOf(cause) ?? "unknown reason";
    throw new CsiError("failed-precondition", `the main file ${path} cannot be read (${code})`, { cause });
  }
}

/** Reads a main file, be it of several connections or of a single driver, for which alone the drivers are loaded. */
export async function readMain(path: string, text: string, outside: ValueResolver): Promise<ReadProxy> {
  const read = readProxyConfig(path, text, outside);
  if (read.singleDriver === undefined) return read;
  const [{ readSingle }, { modules }] = await Promise.all([
    import("../lib/config/single.ts"),
    import("../lib/drivers/index.ts"),
  ]);
  return readSingle(read, modules, outside);
}

async function parsed(path: string, text: string, outside: ValueResolver, log: Log): Promise<ProxyConfig> {
  const { config, diagnostics } = await readMain(path, text, outside);
  if (!config) {
    throw new CsiError("failed-precondition", `the main file cannot be used:\n${reasons(diagnostics)}`);
  }
  for (const each of diagnostics) log.warn(inWords(each), { rule: each.rule });
  return config;
}
