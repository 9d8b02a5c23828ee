import { resolve } from "node:path";
import type { Log } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import type { CallObserver, CommandObserver } from "../../lib/core/observer.ts";
import { parseEndpoint } from "../../lib/csi/endpoint.ts";
import { Ledger } from "../../lib/observe/ledger.ts";
import { both, type Names, named } from "../../lib/observe/names.ts";
import { servePages } from "../../lib/observe/page-server.ts";
import { type StatusAnswer, statusOf, type Views } from "../../lib/observe/status.ts";
import { serveStatus, statusSocketOf } from "../../lib/observe/status-socket.ts";
import { commit, version } from "../version.ts";
import { stateFolder } from "./node.ts";
import type { ServeOptions } from "./options.ts";

/** What is told of the halves of the process; they come to be after what observes them. */
export interface Observed {
  readonly names: () => Names;
  readonly views: () => Views;
}

/** Those who look at a running csimux: `csimux status` always, metrics when they were asked for. */
export interface Observation {
  readonly calls: CallObserver;
  /** As `calls`, for a name that stands for one connection: its ids have no prefix. */
  readonly callsFor: (connection: string) => CallObserver;
  readonly commands: CommandObserver;
  /** Starts to answer. Throws "failed-precondition" when the metrics address cannot be used. */
  begin(log: Log): Promise<void>;
  close(): void;
}

/** `observed` is asked at each look, never before `begin` and the first call; `recent` gives the last lines of the log, `errors` the number of its errors. */
export async function openObservation(
  options: ServeOptions,
  observed: () => Observed,
  { recent, errors }: { readonly recent: () => readonly string[]; readonly errors: () => number },
): Promise<Observation> {
  const { name, nodeName, metricsAddress, aliases } = options;
  const facts = { name, version, commit, modes: [...options.modes], node: nodeName, aliases, started: Date.now() };
  const ledger = new Ledger();
  const status = () => statusOf(facts, observed().views(), ledger);
  const metrics = metricsAddress && (await import("../../lib/observe/metrics.ts")).openMetrics(errors);
  const calls = metrics ? both(ledger.observe, metrics.calls) : ledger.observe;
  const closing: (() => void)[] = [];
  let metricsPort: number | undefined;
  const told = (): StatusAnswer => ({
    ...status(),
    details: {
      config: resolve(options.config),
      state: stateFolder(options),
      metrics: metricsAddress && metricsPort ? { host: metricsAddress.host, port: metricsPort } : undefined,
      log: recent(),
    },
  });
  return {
    calls: named(calls, () => observed().names()),
    callsFor: connection => named(calls, () => ({ ...observed().names(), single: connection })),
    commands: metrics ? metrics.commands : () => {},
    async begin(log) {
      for (const path of statusSockets(options)) closing.push(await beginStatus(path, told, log));
      if (!metrics) return;
      const { contentType } = metrics;
      const page = async () => ({ status: 200, contentType, text: await metrics.text(status()) });
      const { port, close } = await servePages("metrics", metricsAddress, { "/metrics": page }, log);
      closing.push(close);
      metricsPort = port;
      log.info("metrics are served", { address: `${metricsAddress.host}:${port}` });
    },
    close: () => {
      for (const close of closing) close();
    },
  };
}

/** Beside the first CSI socket, unless another place is named; nowhere for a process that listens on TCP alone. */
function statusSockets({ statusSocket, endpoints }: ServeOptions): readonly string[] {
  if (statusSocket !== undefined) return [statusSocket];
  const sockets = endpoints.map(parseEndpoint).flatMap(each => (each.kind === "unix" ? [each.path] : []));
  return sockets.slice(0, 1).map(statusSocketOf);
}

/** Volumes are served without it, too: nobody shall go without storage because nobody can look at it. */
async function beginStatus(path: string, told: () => StatusAnswer, log: Log): Promise<() => void> {
  try {
    return (await serveStatus(path, told, log)).close;
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    log.warn(`csimux status cannot be asked: ${error.message}`);
    return () => {};
  }
}
