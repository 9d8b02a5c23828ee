import { join } from "node:path";
import type { Log } from "../../lib/core/call.ts";
import { CsiError } from "../../lib/core/errors.ts";
import { staleSocket } from "../../lib/csi/socket-file.ts";
import { MainFile } from "../../lib/daemon/main-file.ts";
import { localRunner } from "../../lib/io/local.ts";
import { isLoopback } from "../../lib/observe/page-access.ts";
import { type Host, toolEnvironment, valueResolver } from "../host.ts";
import { version } from "../version.ts";
import { refuseAliases } from "./aliases.ts";
import { openController } from "./controller.ts";
import { beginCommands, lockedIdOf } from "./copies.ts";
import { type DriverEndpoint, driverEndpoints } from "./driver-endpoints.ts";
import { openRegistration } from "./kubelet-registration.ts";
import { catchDefects, openLog } from "./logging.ts";
import { openNode, stateFolder } from "./node.ts";
import { logMissingName, ownNode } from "./node-info.ts";
import { type Observed, openObservation } from "./observation.ts";
import type { ServeOptions } from "./options.ts";

/**
 * The time limit for running calls after SIGTERM, in milliseconds. With the operations that continue (`leastMs`) and the closing of
 * connections a stop takes at most 25 s, less than the 30 s that Kubernetes grants a pod.
 */
const drainMs = 18_000;

/** The minimum time limit for operations to end after being aborted, in milliseconds. */
const leastMs = 3_000;

/** Serves until SIGTERM or SIGINT. Returns the exit code: 0 after a drained stop, 1 if it could not start. */
export async function serve(options: ServeOptions, unknown: readonly string[], host: Host): Promise<number> {
  const output = openLog(options);
  const { log, flush } = output;
  try {
    for (const word of unknown) log.warn(`unknown flag ${word} has no effect`);
    catchDefects(log, flush);
    surviveReload(log);
    // Before anything listens: a signal during the start must stop csimux, too.
    const stopping = stopSignal(() => {
      log.warn("stopped at once by a second signal");
      flush();
      process.exit(1);
    });
    const running = await start(options, host, output);
    const signal = await stopping;
    log.info("stopping", { signal });
    const { cut } = await running.stop();
    log.info("stopped", { cut });
    flush();
    // An open handle of a library must not keep a drained process alive.
    process.exit(0);
  } catch (error) {
    if (!(error instanceof CsiError)) throw error;
    log.error(`cannot start: ${error.message}`);
    return 1;
  } finally {
    flush();
  }
}

/**
 * The folder where the controller mounts shares for itself: in memory, private to this machine or container, unless a
 * state folder is given; and the folder of host keys trusted on first use.
 */
const controllerFolders = ({ stateDir, name }: ServeOptions) => ({
  shares: stateDir === undefined ? join("/run/csimux", name, "shares") : join(stateDir, "shares"),
  knownHosts: join(stateDir ?? join("/var/lib/csimux", name), "known-hosts"),
});

async function listen({ server, name, endpoints }: DriverEndpoint, { socketMode, modes }: ServeOptions, log: Log) {
  for (const endpoint of endpoints) {
    const address = await server.listen(endpoint, socketMode);
    log.info("listening", { address, name, modes: [...modes], version });
    if (endpoint.kind === "tcp" && !isLoopback(endpoint.host))
      log.warn("anyone who reaches this address can delete every volume, without a login; use a socket", { address });
  }
}

/** What `csimux status`, metrics and the page show of the halves that these modes serve. */
function observedParts(
  modes: ServeOptions["modes"],
  main: MainFile,
  controller: ReturnType<typeof openController>,
  node: ReturnType<typeof openNode>,
): Observed {
  const isController = modes.has("controller");
  const isNode = modes.has("node");
  return {
    names: () => ({ single: main.config.single, known: isController ? controller.known : undefined }),
    views: () => ({
      mux: isController ? controller.overview() : undefined,
      node: isNode ? node.parts.volumes.healthView() : undefined,
      folderProblem: isController ? controller.folderProblem() : undefined,
      mainProblem: main.problem,
      single: main.config.single,
    }),
    prefix: () => main.config.defaults.prefix,
    inventory: isController ? controller.inventory : undefined,
    staged: isNode ? () => node.parts.volumes.staged() : undefined,
    initiators: isNode ? node.initiators : undefined,
  };
}

async function start(options: ServeOptions, host: Host, output: ReturnType<typeof openLog>) {
  const { modes } = options;
  const { log } = output;
  const resolver = valueResolver(host.env);
  const main = await MainFile.load(options.config, resolver, log, modes.has("controller"));
  refuseAliases(options.aliases, options.endpoints, main.config.single);
  logMissingName(main.config, options, log);
  const own = await ownNode(main.config, options.nodeName, host, log);
  const observation = await openObservation(options, stateFolder(options, host), () => observed, output, host);
  const lockedId = () => lockedIdOf(options, localRunner({ env: toolEnvironment(host.env) }));
  const settings = { ...controllerFolders(options), healthMs: options.healthMs, lockedId };
  const parts = { host, main, resolver, tell: observation.commands };
  const controller = openController({ ...parts, ownSegments: own.ownSegments, log }, settings);
  const isController = modes.has("controller");
  // A node without connection files knows only the storage systems of its own volumes.
  const elsewhere = async () => (isController ? controller.examples((await own.info()).segments ?? {}) : []);
  const node = openNode({ ...parts, options, own, inline: controller.inline, elsewhere });
  const observed = observedParts(modes, main, controller, node);
  const served = driverEndpoints(options, { main, node, controller }, observation, log);
  // Before the node begins, which removes what an earlier process left: another one that still serves is not that.
  for (const { endpoints } of served)
    for (const each of endpoints) if (each.kind === "unix") await staleSocket(each.path);
  if (modes.has("node")) await node.begin(log);
  const presence = openRegistration(options, log);
  let endCommands = () => {};
  const stop = async () => {
    endCommands();
    const from = performance.now();
    await presence.end();
    const stops = await Promise.all(served.map(({ server }) => server.stop(drainMs)));
    const cut = stops.reduce((sum, each) => sum + each.cut, 0);
    node.parts.volumes.end();
    observation.close();
    await controller.close(Math.max(leastMs, drainMs - (performance.now() - from)));
    return { cut };
  };
  try {
    for (const each of served) await listen(each, options, log);
    await observation.begin(log);
    if (isController) endCommands = await beginCommands(options, controller.command, log);
    await presence.begin();
  } catch (error) {
    // Open listeners would keep a process alive that has failed to start.
    await stop();
    throw error;
  }
  if (isController) controller.watch();
  return { stop };
}

/** Resolves with the first stop signal. Any later one calls `again`. */
function stopSignal(again: () => void): Promise<string> {
  return new Promise(resolve => {
    let stopping = false;
    const on = (name: string): void => {
      if (stopping) again();
      stopping = true;
      resolve(name);
    };
    process.on("SIGTERM", on);
    process.on("SIGINT", on);
  });
}

/**
 * Supervisors send SIGHUP to make a process re-read its files, which csimux does by itself. A terminal that hangs up
 * still ends it. The two signals without a meaning would end it without clean-up (signal(7)).
 */
function surviveReload(log: Log): void {
  for (const name of ["SIGUSR1", "SIGUSR2"]) process.on(name, () => log.info(`${name} has no effect`));
  if (process.stderr.isTTY) return;
  process.on("SIGHUP", () => log.info("SIGHUP needs no action: a changed file counts from the next call on"));
}
