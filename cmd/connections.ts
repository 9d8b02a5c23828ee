import type { Segments } from "../lib/core/access.ts";
import type { Log } from "../lib/core/call.ts";
import { CsiError } from "../lib/core/errors.ts";
import type { CommandObserver } from "../lib/core/observer.ts";
import type { MainFile } from "../lib/daemon/main-file.ts";
import { ConnectionFolder } from "../lib/io/folder.ts";
import { Connections } from "../lib/mux/connections.ts";
import type { ValueResolver } from "../lib/schema/value-resolver.ts";
import type { Host } from "./host.ts";
import { openPorts } from "./ports.ts";

/** Caches the result of the first call. */
function once<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= work();
    return result;
  };
}

/** What the connections of a main file are opened with. */
export interface ConnectionParts {
  readonly host: Host;
  readonly main: MainFile;
  readonly resolver: ValueResolver;
  readonly ownSegments: (() => Segments) | undefined;
  /** Where shares are mounted for this process, and where host keys are kept. */
  readonly folders: { readonly shares?: string; readonly knownHosts?: string };
  /** Gets the commands of the connections. */
  readonly tell: CommandObserver;
  readonly log: Log;
}

/**
 * The connections of a main file: their files, opened with the machine's programs, logins and mounts. `close` ends the logins and mounts; the
 * connections themselves are closed before.
 */
export function openConnections({ host, main, resolver, ownSegments, folders, tell, log }: ConnectionParts) {
  const { single } = main.config;
  const folder = new ConnectionFolder(single === undefined ? main.config.configFolder : main.folder);
  const { ports, close } = openPorts(host, folders, log, tell);
  const { prefix } = main.config.defaults;
  const options = { main: () => main.config, prefix, resolver, ports, ownSegments, log };
  const open = once(async () => (await import("../lib/daemon/opener.ts")).opener(options));
  const files = {
    names: async () => (single === undefined ? folder.names() : [single]),
    read: async (name: string) => {
      await main.refresh();
      if (single === undefined) return folder.read(name);
      return name === single ? main.text : undefined;
    },
    labels: async (name: string, text: string) => {
      const { readPlacement } = await import("../lib/config/placement.ts");
      try {
        return readPlacement(`${name}.yaml`, text, main.config.defaults, resolver).labels;
      } catch (error) {
        if (error instanceof CsiError) return undefined;
        throw error;
      }
    },
  };
  const connections = new Connections(files, open, () => main.config.defaults, main.config.cacheTimeout, log);
  const configured = async () => {
    await main.refresh();
    return main.config.groups;
  };
  return { connections, folder, configured, close };
}
