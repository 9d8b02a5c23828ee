// lib/daemon: what a running csimux does with its files. main-file.ts keeps the main file current, opener.ts makes
// connections of their files, connection-files.ts reads what their files say to nodes, node-facts.ts reads the facts for
// topology rules.

import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { inheritedValues, type ProxyConfig, type ReadProxy, readProxyConfig } from "../config/proxy.ts";
import type { Log } from "../core/call.ts";
import { CsiError, errnoOf, messageOf } from "../core/errors.ts";
import { TimeLimit } from "../core/time.ts";
import { readSmallFile } from "../io/small-file.ts";
import { inWords, reasons } from "../schema/finding.ts";
import { defectOf } from "../schema/suppress.ts";
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
  /** What is wrong with the file that is used, although it is valid. */
  #defect: string | undefined;
  readonly #judges: boolean;
  readonly #limit = new TimeLimit(readMs);
  #last: Promise<void> = Promise.resolve();

  private constructor(
    path: string,
    { text, config, defect, areEqual }: ParsedMain & { text: string; areEqual: () => boolean },
    resolver: ValueResolver,
    log: Log,
    judges: boolean,
  ) {
    this.#defect = defect;
    this.#judges = judges;
    this.#path = path;
    this.#text = text;
    this.#areEqual = areEqual;
    this.#config = config;
    this.#resolver = resolver;
    this.#log = log;
  }

  /**
   * Throws "failed-precondition" when the file cannot be read or used. `judges`: also what connections inherit, for which it loads the drivers; nodes
   * use none of that.
   */
  static async load(path: string, resolver: ValueResolver, log: Log, judges = true): Promise<MainFile> {
    const text = await readMainText(path);
    const files = comparing(resolver);
    const { config, defect } = await parsed(path, text, files.resolver, log, judges);
    if (config.single !== undefined)
      log.info("the main file configures one driver, which is the only connection", { path });
    return new MainFile(path, { text, config, defect, areEqual: files.areEqual }, resolver, log, judges);
  }

  get config(): ProxyConfig {
    return this.#config;
  }

  /** Why the file cannot be used, and the last valid version is, or what is wrong with it; undefined if it is right. */
  get problem(): string | undefined {
    const reason = this.#reason?.replaceAll("\n", " ");
    return reason === undefined ? this.#defect : `${reason} (still using the last valid version)`;
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
        const { config, defect } = await parsed(this.#path, text, files.resolver, this.#log, this.#judges);
        this.#apply(config);
        this.#defect = defect;
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

/** Reads a main file of several connections or of a single driver. Only the latter, and what connections inherit, need the drivers. */
export async function readMain(path: string, text: string, resolver: ValueResolver, judges = true): Promise<ReadProxy> {
  const read = readProxyConfig(path, text, resolver);
  const inherits = judges && Object.keys(inheritedValues(read.source)).length > 0;
  if (read.singleDriver === undefined && !inherits) return read;
  const [{ readSingle }, { modules }] = await Promise.all([
    import("../config/single.ts"),
    import("../drivers/index.ts"),
  ]);
  return readSingle(read, modules, resolver);
}

interface ParsedMain {
  readonly config: ProxyConfig;
  /** As in MainFile. */
  readonly defect: string | undefined;
}

async function parsed(
  path: string,
  text: string,
  resolver: ValueResolver,
  log: Log,
  judges: boolean,
): Promise<ParsedMain> {
  const { config, diagnostics } = await readMain(path, text, resolver, judges);
  if (!config) throw new CsiError("failed-precondition", `the main file cannot be used:\n${reasons(diagnostics)}`);
  for (const each of diagnostics) log.warn(inWords(each), { rule: each.rule });
  return { config, defect: defectOf(text, diagnostics) };
}
