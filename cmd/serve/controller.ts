import { openCopies } from "../../lib/copies/open.ts";
import type { CopyAnswer, CopyCommand } from "../../lib/copies/protocol.ts";
import { copyByStream } from "../../lib/copies/zfs-send.ts";
import type { Log } from "../../lib/core/call.ts";
import { messageOf } from "../../lib/core/errors.ts";
import { within } from "../../lib/core/time.ts";
import type { MainFile } from "../../lib/daemon/main-file.ts";
import { ConnectionFolder } from "../../lib/io/folder.ts";
import { FolderWatch } from "../../lib/io/folder-watch.ts";
import type { Connections } from "../../lib/mux/connections.ts";
import type { RouterSettings } from "../../lib/mux/context.ts";
import { openRouter } from "../../lib/mux/router.ts";
import { type ConnectionParts, openConnections } from "../connections.ts";
import { cleanUpRounds } from "./copies.ts";
import { healthRounds, healthTimes } from "./health-rounds.ts";

/** The time limit for closing connections at the end, and then logins and mounts of the controller, in milliseconds for both. */
const closeMs = 2_500;

/**
 * Re-reads all connections, then calls `then`. Logs once when the folder becomes unreadable and once when it recovers.
 */
function surveyor(main: MainFile, connections: Connections, path: string, then: () => void, log: Log) {
  let unread: string | undefined;
  const reread = async () => {
    await main.reread();
    try {
      await connections.survey();
      if (unread !== undefined) log.info(`the folder of connection files ${path} is readable again`);
      unread = undefined;
    } catch (error) {
      const reason = messageOf(error);
      if (reason !== unread) log.warn(`cannot read the connections: ${reason}`);
      unread = reason;
    }
    then();
  };
  return { reread, problem: () => unread };
}

/** Settings of the controller half from the command line. */
export interface ControllerSettings {
  /** The folder where it mounts shares for its own use. */
  readonly shares: string;
  /** The folder of host keys trusted on first use. */
  readonly knownHosts: string;
  /** Like ServeOptions.healthMs. */
  readonly healthMs: number;
  /** Like RunningCopiesParts.lockedId. */
  readonly lockedId: () => Promise<string | undefined>;
}

/** Builds the controller half: files → connections → routing. */
export function openController(
  given: Omit<ConnectionParts, "folders">,
  { healthMs, lockedId, ...folders }: ControllerSettings,
) {
  const { main, log } = given;
  const { single } = main.config;
  const { prefix } = main.config.defaults;
  const { connections, folder, configured, close } = openConnections({ ...given, folders });
  const settings = (): RouterSettings => {
    const { topologyMatch, reportTopology, honourPreferred, legacyConnection, listing } = main.config;
    return {
      policy: { match: topologyMatch, report: reportTopology, honourPreferred, prefix },
      legacyConnection,
      single,
      listing,
    };
  };
  const { stop, overview, scopedTo, checkHealth, askSkipped, checkNew, examples, inline, inventory, copies, ...parts } =
    openRouter({
      ...{ connections, configured, settings, log, healthTimes: healthTimes(healthMs) },
      openCopies: openCopies({ stream: copyByStream, settings: () => main.config.copies, log, lockedId }),
    });
  const cleanUps = cleanUpRounds(async call => copies?.cleanUp(call), log);
  const rounds = healthRounds(healthMs, log, checkHealth, askSkipped);
  const ending = new AbortController();
  // In the background: a storage system that does not answer must not delay the files of the others.
  const check = () => void checkNew({ id: "check", log, signal: ending.signal, secrets: {} });
  const survey = surveyor(main, connections, folder.path, check, log);
  const watches = [new FolderWatch(folder, survey.reread)];
  if (single === undefined) watches.push(new FolderWatch(new ConnectionFolder(main.folder), () => main.reread()));
  return {
    /** Reads all connections now and watches them from now on. */
    watch: () => {
      for (const each of watches) each.start();
      rounds.start();
      cleanUps.start();
    },
    /** The present state of all connections and groups; sends no request to any storage system. */
    overview: () => overview(main.config.groups),
    /** The volumes of all connections; asks the storage systems. Rejects if the folder of connection files cannot be read. */
    inventory: () => inventory({ id: "inventory", log, signal: ending.signal, secrets: {} }),
    /** Why the folder of connection files cannot be read; undefined if it can. */
    folderProblem: survey.problem,
    /** Volume contexts with which a node of a segment reaches the connections available to it. */
    examples,
    /** Whether a name in a call is a present or former connection, or a group. */
    known: (name: string) => main.config.groups.has(name) || connections.record(name) !== undefined,
    parts,
    /** Runs a command of the command socket. */
    command: async (command: CopyCommand, tell: (answer: CopyAnswer) => void, signal: AbortSignal) =>
      copies?.command(command, tell, signal, { id: command.command, log, signal: ending.signal, secrets: {} }),
    /** Ephemeral inline volumes, for the node. */
    inline,
    /** The same for an alias. */
    scopedTo,
    /** Aborts what is running and waits for it, at most `limitMs` milliseconds plus a short time for the clean-up. */
    async close(limitMs: number) {
      for (const each of watches) each.stop();
      rounds.stop();
      cleanUps.stop();
      ending.abort();
      const left = await stop(limitMs);
      if (left.length > 0) log.warn("stopping with operations unfinished; retries will finish them", { left });
      const end = performance.now() + closeMs;
      const rest = () => Math.max(0, end - performance.now());
      if (!(await within(connections.close(), rest()))) log.warn("not all connections closed in time");
      if (!(await within(close(), rest()))) log.warn("not all logins and mounts of the controller ended in time");
    },
  };
}
