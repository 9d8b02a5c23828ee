import { resolve } from "node:path";
import type { Log } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { CallObserver, CommandObserver } from "../../lib/core/observer.ts";
import { parseEndpoint } from "../../lib/csi/endpoint.ts";
import type { Machine } from "../../lib/daemon/node-facts.ts";
import type { ConnectionInventory } from "../../lib/mux/inventory.ts";
import { CallTracker } from "../../lib/observe/call-tracker.ts";
import { type KnownNames, onlyKnownNames, toBoth } from "../../lib/observe/names.ts";
import { servePages, shared } from "../../lib/observe/page-server.ts";
import { type StatusAnswer, type StatusSources, statusOf } from "../../lib/observe/status.ts";
import { type StatusRequest, serveStatus, statusSocketOf } from "../../lib/observe/status-socket.ts";
import { commit, version } from "../version.ts";
import type { ServeOptions } from "./options.ts";
import { beginPage } from "./page.ts";

/** The observed halves of the process, which are created after their observers. */
export interface Observed {
  readonly names: () => KnownNames;
  readonly views: () => StatusSources;
  /** The prefix of csimux's own topology keys, without the slash. */
  readonly prefix: () => string;
  /** The volumes of all connections, from their storage systems; undefined on nodes. */
  readonly inventory: (() => Promise<readonly ConnectionInventory[]>) | undefined;
  /** The staged volumes, complete or undefined; undefined in a process without a node. */
  readonly staged: (() => Promise<readonly string[] | undefined>) | undefined;
  /** As in StatusAnswer. */
  readonly initiators: (() => Promise<readonly string[]>) | undefined;
}

/** The observers of a running csimux: `csimux status` always, metrics if enabled. */
export interface Observation {
  readonly calls: CallObserver;
  /** Like `calls`, for a driver name of one connection: its ids have no prefix. */
  readonly callsFor: (connection: string) => CallObserver;
  readonly commands: CommandObserver;
  /** Starts to serve. Throws "failed-precondition" if the metrics address cannot be used. */
  begin(log: Log): Promise<void>;
  close(): void;
}

/**
 * `state` is the folder of the node's records; `observed` is called for each request, never before `begin` and the first call; `recent` returns the last log lines,
 * `errors` the number of errors.
 */
export async function openObservation(
  options: ServeOptions,
  state: string,
  observed: () => Observed,
  { recent, errors }: { readonly recent: () => readonly string[]; readonly errors: () => number },
  machine: Pick<Machine, "env">,
): Promise<Observation> {
  const { name, nodeName, metricsAddress, aliases } = options;
  const facts = {
    name,
    version,
    commit,
    modes: [...options.modes],
    host: machine.env["HOSTNAME"] || undefined,
    node: nodeName,
    aliases,
    started: Date.now(),
  };
  const ledger = new CallTracker();
  const status = () => statusOf(facts, observed().views(), ledger);
  const metrics = metricsAddress && (await import("../../lib/observe/metrics.ts")).openMetrics(errors);
  const calls = metrics ? toBoth(ledger.observe, metrics.calls) : ledger.observe;
  const closing: (() => void)[] = [];
  let metricsPort: number | undefined;
  const answer = async (request: StatusRequest): Promise<StatusAnswer> => ({
    // The volumes first: their listing changes the status. Why the folder cannot be read is a part of the status.
    ...(request === "volumes" && {
      inventory: await observed()
        .inventory?.()
        .catch(() => undefined),
    }),
    ...status(),
    staged: await observed().staged?.(),
    initiators: await observed().initiators?.(),
    details: {
      config: resolve(options.config),
      state,
      prefix: observed().prefix(),
      metrics: metricsAddress && metricsPort ? { host: metricsAddress.host, port: metricsPort } : undefined,
      log: recent(),
    },
  });
  return {
    calls: onlyKnownNames(calls, () => observed().names()),
    callsFor: connection => onlyKnownNames(calls, () => ({ ...observed().names(), single: connection })),
    commands: metrics ? metrics.commands : () => {},
    async begin(log) {
      for (const path of statusSockets(options))
        closing.push(
          await unlessUnavailable("csimux status", log, async () => (await serveStatus(path, answer, log)).close),
        );
      const { page: pageOptions } = options;
      if (pageOptions) {
        const begin = () => beginPage(pageOptions, name, () => answer("volumes"), machine, log);
        closing.push(await unlessUnavailable("the status page", log, begin));
      }
      if (!metrics) return;
      const { contentType } = metrics;
      const page = shared(async () => ({ status: 200, contentType, text: await metrics.text(status()) }));
      const { port, close } = await servePages("metrics", metricsAddress, { "/metrics": page }, log);
      closing.push(close);
      metricsPort = port;
      log.info("serving metrics", { address: `${metricsAddress.host}:${port}` });
    },
    close: () => {
      for (const close of closing) close();
    },
  };
}

/** The given path, or next to the first CSI socket; none for a process that listens only on TCP. */
function statusSockets({ statusSocket, endpoints }: ServeOptions): readonly string[] {
  if (statusSocket !== undefined) return [statusSocket];
  const sockets = endpoints.map(parseEndpoint).flatMap(each => (each.kind === "unix" ? [each.path] : []));
  return sockets.slice(0, 1).map(statusSocketOf);
}

/** Begins to serve `what`, and returns its end. If that fails, volumes are served nevertheless. */
async function unlessUnavailable(what: string, log: Log, begin: () => Promise<() => void>): Promise<() => void> {
  try {
    return await begin();
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    log.warn(`${what} is not available: ${error.message}`);
    return () => {};
  }
}
