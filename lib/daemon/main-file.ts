// lib/daemon: what a running csimux does with its files. main-file.ts keeps the main file current, opener.ts makes
// connections of their files, connection-files.ts reads what their files say to nodes, node-facts.ts reads the facts for
// topology rules.

import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { type ProxyConfig, type ReadProxy, readProxyConfig } from "../config/proxy.ts";
import type { Log } from "../core/call.ts";
import { CsiError, errnoOf, messageOf } from "../core/errors.ts";
import { TimeLimit } from "../core/time.ts";
import { readSmallFile } from "../io/small-file.ts";
import { inWords, reasons } from "../schema/finding.ts";
import type { ValueResolver } from "../schema/value-resolver.ts";
import { comparing } from "./named-files.ts";

/** The minimum interval in milliseconds at which calls read the main file again. */
const freshMs = 1_000;

/** Time limit for reading the main file, in milliseconds: a call waits for it. */
const readMs = 2_000;

/** The largest main file, in bytes. */
const maxBytes = 4 << 20;

/**
 * The main file, kept current. An invalid change leaves the last valid configuration in effect. Changes of groups, the
 * legacy connection, listing and placement apply to the next call; others, and the removal of the legacy connection, need a restart, which
 * is logged.
 */
export class MainFile {
  readonly #path: string;
  readonly #resolver: ValueResolver;
  readonly #log: Log;
  /** The text that was parsed last, and its error. */
  #text: string;
  /** Whether the files that it names, such as that of mount_flags, are as they were read. */
  #areEqual: () => boolean;
  #fault: unknown;
  #config: ProxyConfig;
  #readAt = performance.now();
  /** Why the file could not be used when it was last read; each reason is logged once. */
  #reason: string | undefined;
  readonly #limit = new TimeLimit(readMs);
  #last: Promise<void> = Promise.resolve();

  private constructor(
    path: string,
    { text, config, areEqual }: { text: string; config: ProxyConfig; areEqual: () => boolean },
    resolver: ValueResolver,
    log: Log,
  ) {
    this.#path = path;
    this.#text = text;
    this.#areEqual = areEqual;
    this.#config = config;
    this.#resolver = resolver;
    this.#log = log;
  }

  /** Throws "failed-precondition" when the file cannot be read or used. */
  static async load(path: string, resolver: ValueResolver, log: Log): Promise<MainFile> {
    const text = await readMainText(path);
    const files = comparing(resolver);
    const config = await parsed(path, text, files.resolver, log);
    if (config.single !== undefined)
      log.info("the main file configures one driver, which is the only connection", { path });
    return new MainFile(path, { text, config, areEqual: files.areEqual }, resolver, log);
  }

  get config(): ProxyConfig {
    return this.#config;
  }

  /** The text that was read last; for a main file with a single driver, the text of its connection. */
  get text(): string {
    return this.#text;
  }

  /** The folder of the file. */
  get folder(): string {
    return dirname(this.#path);
  }

  /** As `reread`, at most once a second: for every call. */
  async refresh(): Promise<void> {
    if (performance.now() - this.#readAt < freshMs) return;
    this.#readAt = performance.now();
    await this.reread();
  }

  /** Applies a changed file; never throws. Readings are in sequence, so an old text never replaces a new one. */
  reread(): Promise<void> {
    this.#last = this.#last.then(() => this.#rereadNow());
    return this.#last;
  }

  async #rereadNow(): Promise<void> {
    let what = "the main file could not be read; still using the last valid version";
    try {
      const text = await this.#read();
      what = "the main file is invalid; still using the last valid version";
      await this.#use(text);
      this.#reason = undefined;
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== this.#reason) this.#log.warn(what, { reason });
      this.#reason = reason;
    }
  }

  async #read(): Promise<string> {
    const unread = (why: string) => new CsiError("failed-precondition", `the main file ${this.#path} ${why}`);
    const text = await this.#limit.ask(
      this.#path,
      () => readSmallFile(this.#path, maxBytes),
      () => unread(`was not read within ${readMs / 1000} s`),
    );
    if (text === undefined) throw unread("is gone");
    return text;
  }

  /** Parses each text once, because that is slow. Throws its error. */
  async #use(text: string): Promise<void> {
    if (text !== this.#text || !this.#areEqual()) {
      const files = comparing(this.#resolver);
      this.#text = text;
      this.#areEqual = files.areEqual;
      this.#fault = undefined;
      try {
        this.#apply(await parsed(this.#path, text, files.resolver, this.#log));
      } catch (error) {
        this.#fault = error;
      }
    }
    if (this.#fault !== undefined) throw this.#fault;
  }

  #apply(config: ProxyConfig): void {
    if (config.single !== this.#config.single) {
      // Ids would have another meaning; those of volumes in use must not become unknown while csimux runs.
      const text = `the driver changed ${config.single === undefined ? 'to "proxy"' : 'from "proxy"'}: restart to apply it`;
      throw new CsiError("failed-precondition", text);
    }
    if (needsStart(this.#config) !== needsStart(config))
      this.#log.warn(
        "the main file changed in configFolder, cacheTimeoutMinutes, nodeTopology or nodeId: restart to apply it",
      );
    const { defaults, legacyConnection: legacy } = this.#config;
    // Without it, the deletion of a volume whose id has no prefix succeeds, and leaves the volume behind.
    const legacyConnection = config.legacyConnection ?? legacy;
    if (legacyConnection !== config.legacyConnection)
      this.#log.warn(
        "the main file lost legacyConnection: ids without a prefix stay those of it until csimux restarts",
        {
          connection: legacyConnection,
        },
      );
    // Keeps the identity of equal defaults, so that what was made from them is not made again.
    const kept = isDeepStrictEqual(config.defaults, defaults) ? { defaults } : {};
    this.#config = { ...config, ...kept, legacyConnection };
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

/** Reads a main file of several connections or of a single driver; only the latter loads the drivers. */
export async function readMain(path: string, text: string, resolver: ValueResolver): Promise<ReadProxy> {
  const read = readProxyConfig(path, text, resolver);
  if (read.singleDriver === undefined) return read;
  const [{ readSingle }, { modules }] = await Promise.all([
    import("../config/single.ts"),
    import("../drivers/index.ts"),
  ]);
  return readSingle(read, modules, resolver);
}

async function parsed(path: string, text: string, resolver: ValueResolver, log: Log): Promise<ProxyConfig> {
  const { config, diagnostics } = await readMain(path, text, resolver);
  if (!config) throw new CsiError("failed-precondition", `the main file cannot be used:\n${reasons(diagnostics)}`);
  for (const each of diagnostics) log.warn(inWords(each), { rule: each.rule });
  return config;
}
