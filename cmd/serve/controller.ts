import type { Log } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { CommandObserver } from "../../lib/core/observer.ts";
import { within } from "../../lib/core/time-limit.ts";
import type { Segments } from "../../lib/core/topology.ts";
import { ConnectionFolder } from "../../lib/io/folder.ts";
import { FolderWatch } from "../../lib/io/folder-watch.ts";
import { Connections } from "../../lib/mux/connections.ts";
import { InlineVolumes } from "../../lib/mux/inline.ts";
import { openMux } from "../../lib/mux/open.ts";
import type { MuxSettings } from "../../lib/mux/placed.ts";
import type { Outside } from "../../lib/schema/outside.ts";
import type { Host } from "../host.ts";
import type { MainFile } from "../main-file.ts";
import { openPorts } from "../ports.ts";
import { healthRounds, healthTimes } from "./health-rounds.ts";

/** How long connections may take to close at the end, and then logins and mounts of the controller, in milliseconds each. */
const closeMs = 2_500;

/** The result of the first call, for all calls. */
function once<T>(work: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= work();
    return result;
  };
}

/**
 * A look at all connection files; `then` begins what follows from it. A folder that cannot be read is said once, and once when it
 * can be read again.
 */
function surveyor(
  main: MainFile,
  connections: Connections,
  path: string,
  then: () => void,
  log: Log,
): { readonly look: () => Promise<void>; readonly problem: () => string | undefined } {
  let unread: string | undefined;
  const look = async () => {
    await main.look();
    try {
      await connections.survey();
      if (unread !== undefined) log.info(`the folder of connection files ${path} can be read again`);
      unread = undefined;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (reason !== unread) log.warn(`no connection can be looked at: ${reason}`);
      unread = reason;
    }
    then();
  };
  return { look, problem: () => unread };
}

/** What the controller half is told by the command line. */
export interface ControllerSettings {
  /** Where shares that it mounts itself appear. */
  readonly shares: string;
  /** Where host keys are kept that it trusts because they were the first to be seen. */
  readonly knownHosts: string;
  /** As ServeOptions.healthMs. */
  readonly healthMs: number;
}

/** Builds the controller half by hand: files → connections → routing. Commands are told to `tell`. */
export function openController(
  host: Host,
  main: MainFile,
  outside: Outside,
  ownPlace: (() => Segments) | undefined,
  { healthMs, ...folders }: ControllerSettings,
  tell: CommandObserver,
  log: Log,
) {
  const { single } = main.config;
  const folder = new ConnectionFolder(single === undefined ? main.config.configFolder : main.folder);
  const { ports, close } = openPorts(host, folders, log, tell);
  const { prefix } = main.config.defaults;
  const options = { main: () => main.config, prefix, outside, ports, ownPlace, log };
  const open = once(async () => (await import("../open.ts")).opener(options));
  const files = {
    names: async () => (single === undefined ? folder.names() : [single]),
    read: async (name: string) => {
      await main.refresh();
      if (single === undefined) return folder.read(name);
      return name === single ? main.text : undefined;
    },
    labels: async (name: string, text: string) => {
      const { readPlacement } = await import("../../lib/config/placement.ts");
      try {
        return readPlacement(`${name}.yaml`, text, main.config.defaults, outside).labels;
      } catch (error) {
        if (error instanceof CsiError) return undefined;
        throw error;
      }
    },
  };
  const connections = new Connections(files, open, () => main.config.defaults, main.config.cacheTimeout, log);
  const settings = (): MuxSettings => {
    const { topologyMatch, reportTopology, honourPreferred, legacyConnection, listing } = main.config;
    return {
      policy: { match: topologyMatch, report: reportTopology, honourPreferred, prefix },
      legacyConnection,
      single,
      listing,
    };
  };
  const configured = async () => {
    await main.refresh();
    return main.config.groups;
  };
  const { stop, overview, standingFor, lookAtHealth, checkNew, examples, ...parts } = openMux(
    connections,
    configured,
    settings,
    log,
    undefined,
    healthTimes(healthMs),
  );
  const offered = {
    modifies: () => connections.anyCan("modify"),
    tellsHealth: () => connections.anyCan("health"),
    groups: () => connections.anyCan("groupSnapshots"),
  };
  const rounds = healthRounds(healthMs, log, lookAtHealth);
  const inline = new InlineVolumes(connections, () => main.config.single);
  const ending = new AbortController();
  // In the background: a storage that does not answer must not hold up the files of the others.
  const check = () => void checkNew({ id: "check", log, signal: ending.signal, secrets: {} });
  const survey = surveyor(main, connections, folder.path, check, log);
  const watches = [new FolderWatch(folder, survey.look)];
  if (single === undefined) watches.push(new FolderWatch(new ConnectionFolder(main.folder), () => main.look()));
  return {
    /** Looks at all connections now, and at what changes from now on. */
    watch: () => {
      for (const each of watches) each.start();
      rounds.start();
    },
    /** What is known of all connections and groups at this moment; asks nobody. */
    overview: () => overview(main.config.groups),
    /** Why the folder of connection files cannot be read; undefined while it can. */
    folderProblem: survey.problem,
    /** What leads a node of a segment to volumes of connections that it reaches. */
    examples,
    /** Whether calls may name this: there is or was such a connection, or there is such a group. */
    known: (name: string) => main.config.groups.has(name) || connections.seen().some(each => each.name === name),
    parts: { ...parts, ...offered },
    /** Volumes that live with their pod, for the node. */
    inline,
    /** The same for an alias. */
    standingFor: (connection: string) => ({ ...standingFor(connection), ...offered }),
    /** Aborts what is running and waits for it, but not longer than `limitMs` milliseconds and then a moment for the clean-up. */
    async close(limitMs: number) {
      for (const each of watches) each.stop();
      rounds.stop();
      ending.abort();
      const left = await stop(limitMs);
      if (left.length > 0) log.warn("stopping while operations do not end; repeated calls finish them", { left });
      if (!(await within(connections.close(), closeMs))) log.warn("not every connection closes in time");
      if (!(await within(close(), closeMs))) log.warn("not every login and mount of the controller ends in time");
    },
  };
}
