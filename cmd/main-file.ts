import { readFile } from "node:fs/promises";
import { type ProxyConfig, readProxyConfig } from "../lib/config/proxy.ts";
import type { Log } from "../lib/core/call.ts";
import { errnoOf } from "../lib/core/errno.ts";
import { CsiError } from "../lib/core/errors.ts";
import { inWords, reasons } from "../lib/schema/finding.ts";
import type { Outside } from "../lib/schema/outside.ts";

/** The main file is looked at again at most this often, in milliseconds, and only when a call comes. */
const freshMs = 1_000;

/**
 * The main file, kept current. A change that is wrong leaves the last good configuration in place. Groups, the legacy
 * connection, listing and placement follow at the next call; the rest needs a new start, which is logged.
 */
export class MainFile {
  readonly #path: string;
  readonly #outside: Outside;
  readonly #log: Log;
  #text: string;
  #config: ProxyConfig;
  #looked = Date.now();

  private constructor(path: string, text: string, config: ProxyConfig, outside: Outside, log: Log) {
    this.#path = path;
    this.#text = text;
    this.#config = config;
    this.#outside = outside;
    this.#log = log;
  }

  /** Throws "failed-precondition" when the file cannot be read or used. */
  static async load(path: string, outside: Outside, log: Log): Promise<MainFile> {
    const text = await readMainText(path);
    return new MainFile(path, text, parsed(path, text, outside, log), outside, log);
  }

  get config(): ProxyConfig {
    return this.#config;
  }

  /** Takes over a changed file. Never throws: what was good stays. */
  async refresh(): Promise<void> {
    const now = Date.now();
    if (now - this.#looked < freshMs) return;
    this.#looked = now;
    try {
      const text = await readMainText(this.#path);
      if (text === this.#text) return;
      this.#text = text;
      const config = parsed(this.#path, text, this.#outside, this.#log);
      if (needsStart(this.#config) !== needsStart(config)) {
        this.#log.warn(
          "the main file changed in configFolder, cacheTimeoutMinutes, nodeTopology or nodeId: restart to apply it",
        );
      }
      this.#config = config;
      this.#log.info("the main file was read again");
    } catch (error) {
      this.#log.warn("the main file cannot be used, the last good one stays", {
        reason: error instanceof Error ? error.message : String(error),
      });
    }
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

function parsed(path: string, text: string, outside: Outside, log: Log): ProxyConfig {
  const { config, diagnostics } = readProxyConfig(path, text, outside);
  if (!config) {
    throw new CsiError("failed-precondition", `the main file cannot be used:\n${reasons(diagnostics)}`);
  }
  for (const each of diagnostics) log.warn(inWords(each), { rule: each.rule });
  return config;
}
